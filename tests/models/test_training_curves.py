"""Twenty optimizer steps through `torch.compile(backend="wrapper_ir")` and through Inductor, from the same
seed: equal loss curves, dropout included, equally many compiled graphs, and no more memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics
from torch.utils import _pytree as pytree

from tests.common.compare import peak_bytes
from tests.common.zoo import ZOO, Case

# Any in this file: the arguments and outputs of any model.
MODELS = ["bert", "gpt2", "llama", "lstm", "moe", "resnet", "t5", "vit"]
QUICK = {"moe"}
"""Models whose proof is part of `make test`; all are part of `make conformance`."""
STEPS = 20
CHANGE = 10
"""From this step on the batch has another size: one recompile, with dynamic shapes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Results of a training run: the loss of each step, counts of graphs and recompiles, and a step's peak
    bytes.
    """

    losses: Tensor
    graphs: int
    recompiles: int
    breaks: int
    peak: int


def targets(case: Case, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The call with labels where the model computes a loss itself."""
    if "input_ids" in kwargs and case.name in ("gpt2", "llama"):
        return {**kwargs, "labels": kwargs["input_ids"]}
    if case.name == "t5":
        return {"input_ids": kwargs["input_ids"], "labels": kwargs["decoder_input_ids"]}
    if "pixel_values" in kwargs:
        return {**kwargs, "labels": torch.arange(len(kwargs["pixel_values"])) % 5}
    return kwargs


def loss_of(outputs: Any) -> Tensor:
    """The model's own loss, or the distance of every floating output from 1."""
    loss = getattr(outputs, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    leaves = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.is_floating_point()]
    return torch.stack([((t - 1) ** 2).mean() for t in leaves]).sum()


def with_dropout(model: nn.Module) -> nn.Module:
    """In training mode, each dropout at 0.1: random numbers have to be the same ones as well."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    return model.train()


@torch._dynamo.config.patch(allow_rnn=True)  # type: ignore[untyped-decorator]  # else recurrent modules stay in eager mode
def train(backend: str, name: str) -> Curve:
    """The whole run from a fixed seed."""
    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()
    case = ZOO[name]()
    assert case.other is not None
    calls = [(case.args, dict(case.kwargs or {})), (case.other[0], dict(case.other[1]))]
    model = with_dropout(case.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    compiled: Callable[..., Any] = torch.compile(model, backend=backend)
    torch.manual_seed(1)

    def step(position: int) -> Tensor:
        args, kwargs = calls[position >= CHANGE]
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(compiled(*args, **targets(case, kwargs)))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it so
        optimizer.step()
        return loss.detach()

    losses = torch.stack([step(i) for i in range(STEPS)])
    graphs, breaks = counters["stats"]["unique_graphs"], len(counters["graph_break"])
    # Frames would not do for this: those that were once skipped are not counted again in the same process.
    recompiles = sum(bool(m.recompile_reason) for m in get_compilation_metrics())
    return Curve(losses, graphs, recompiles, breaks, peak_bytes(lambda: step(STEPS)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.conformance) for n in MODELS]
)
def test_twenty_steps_are_inductors(name: str) -> None:
    theirs, ours = train("inductor", name), train("wrapper_ir", name)
    assert theirs.losses[-1] < theirs.losses[0], "nothing was learnt"
    torch.testing.assert_close(ours.losses, theirs.losses, rtol=1e-4, atol=1e-5)
    assert (ours.graphs, ours.breaks) == (theirs.graphs, theirs.breaks)
    assert ours.recompiles == theirs.recompiles >= 1, "the second batch size should have been compiled anew"
    assert ours.peak <= theirs.peak, f"{ours.peak} bytes against {theirs.peak}"
