"""Training through `torch.compile(backend="wrapper_ir")`: loss, gradients and buffers as eager's, memory as Inductor's."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from py_wrapper import PyOptions, PythonEmitter
from tests.common.compare import assert_same, clone_tree, peak_bytes
from tests.common.zoo import ZOO, Case

QUICK_FX = ["convnet", "gpt2"]
MODELS = ["bert", "convnet", "gpt2", "llama", "lstm", "moe"]
KEEPING = PythonEmitter(options=PyOptions(keep_buffers=True))


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    # else recurrent modules stay in eager mode
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def training_case(name: str) -> Case:
    """The case with its model in training mode; dropout off, so that eager draws the same (no) numbers."""
    case = ZOO[name]()
    case.model.train()
    for module in case.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return case


def loss_of(outputs: Any) -> Tensor:  # Any: the model's own output structure
    """A scalar that depends on every floating output."""
    leaves = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.is_floating_point()]
    return torch.stack([(t.float() ** 2).mean() for t in leaves]).sum()


def step(model: Any, case: Case) -> Tensor:  # Any: a module or a compiled callable
    """Forward and backward; gradients are left in the parameters."""
    loss = loss_of(model(*clone_tree(case.args), **clone_tree(dict(case.kwargs or {}))))
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it so
    return loss.detach()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "emitter"),
    [
        *((name, "python") for name in MODELS),
        *(
            pytest.param(name, "fx", marks=() if name in QUICK_FX else pytest.mark.conformance)
            for name in MODELS
        ),
        ("moe", KEEPING),
    ],
)
def test_loss_gradients_and_buffers(name: str, emitter: str | PythonEmitter) -> None:
    case = training_case(name)
    reference = copy.deepcopy(case.model)
    options: dict[str, Any] = {"emitter": emitter}  # Any: torch's type for options has no emitters
    compiled = torch.compile(case.model, backend="wrapper_ir", options=options)
    for _ in range(2):
        want, got = step(reference, case), step(compiled, case)
        assert_same(got, want)
    for (key, a), (_, b) in zip(case.model.named_parameters(), reference.named_parameters(), strict=True):
        if b.grad is None:
            assert a.grad is None, key
        else:
            torch.testing.assert_close(
                a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=partial("{}: {}".format, key)
            )
    assert_same(dict(case.model.named_buffers()), dict(reference.named_buffers()))


def peak_of(backend: str, name: str) -> int:
    torch._dynamo.reset()
    case = training_case(name)
    compiled = torch.compile(case.model, backend=backend)
    for _ in range(3):
        step(compiled, case)
        case.model.zero_grad(set_to_none=True)
    return peak_bytes(lambda: step(compiled, case))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["gpt2", *(pytest.param(n, marks=pytest.mark.conformance) for n in ("bert", "convnet", "lstm"))]
)
def test_peak_memory_is_not_above_inductors(name: str) -> None:
    ours, theirs = peak_of("wrapper_ir", name), peak_of("inductor", name)
    assert ours <= theirs, f"{ours} bytes against {theirs}"
