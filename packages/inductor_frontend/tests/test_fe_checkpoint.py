"""Activation checkpointing: the recomputation in backward draws the random numbers of forward."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.observing import main_text, stock
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from inductor_frontend.operators.higher_order import random_def
from inductor_frontend.options import CaptureOptions
from inductor_frontend.translate.finish import finish
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

# Any in this file: models and their arguments.
Run = Callable[..., Tensor]
_WEIGHT = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))


def _block(x: Tensor) -> Tensor:
    y = F.dropout(torch.sin(x @ _WEIGHT), 0.4)
    return y * torch.rand_like(y) + torch.bernoulli(y.sigmoid())


def _policy(_: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    kept = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def _model(x: Tensor) -> Tensor:
    """A block that backward recomputes, one whose matmuls are saved, and one that is saved whole."""
    contexts = functools.partial(create_selective_checkpoint_contexts, _policy)
    first: Tensor = checkpoint(_block, x, use_reentrant=False)
    second: Tensor = checkpoint(_block, first, use_reentrant=False, context_fn=contexts)
    return (second + F.dropout(second, 0.5)).sum()


def _trained(run: Run) -> list[Tensor]:
    """Losses, gradients and random states of two steps."""
    tensors = []
    torch.manual_seed(3)
    for step in range(2):
        x = (torch.arange(24.0).view(4, 6) / 24 + step).requires_grad_()
        loss = run(x)
        between = torch.get_rng_state()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        assert x.grad is not None
        tensors += [loss.detach(), x.grad, between, torch.get_rng_state()]
    return tensors


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [False, True], ids=["torch's numbers", "eager's numbers"])
def test_recomputation_draws_the_same_numbers(fallback: bool) -> None:
    with inductor_config.patch(fallback_random=fallback):
        want = _trained(_model if fallback else stock(_model))
        torch._dynamo.reset()
        torch.testing.assert_close(_trained(torch.compile(_model, backend="wrapper_ir")), want)


# Before 2.13, Inductor decomposes `rand_like` even where the numbers are eager's.
DRAWN, GIVEN = (
    ("rand_like", "%primals_1, ") if since("2.12") else ("rand", "[2, 2], dtype=f32, device=device(cpu), ")
)

SAVED = f"""  %buf0 = call higher_order::run_and_save_rng_state.aten__{DRAWN}__default({GIVEN}pin_memory=false) : results
  %buf1 = unpack %buf0[0] : u8[5056]
  %buf2 = unpack %buf0[1] : f32[2, 2]
"""

RESTORED = f" = call higher_order::run_with_rng_state.aten__{DRAWN}__default(%rng_state_output_0, {GIVEN}"


def test_random_states_are_saved_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[ir.Program] = []

    def record(program: ir.Program, options: CaptureOptions, *args: Any, **kwargs: Any) -> Analyses:
        graph = finish(program, options, *args, **kwargs)
        programs.append(graph.program)
        return graph

    def model(x: Tensor) -> Tensor:
        y: Tensor = checkpoint(lambda t: torch.mm(t, torch.rand_like(t)), x, use_reentrant=False)
        return torch.mm(y, y)

    monkeypatch.setattr("inductor_frontend.backend.lowered.finish", record)
    with inductor_config.patch(fallback_random=True, force_disable_caches=True):
        loss = torch.compile(model, backend="wrapper_ir")(torch.ones(2, 2, requires_grad=True)).sum()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
    forward, backward = (main_text(p) for p in programs)
    lines = [line for line in forward.splitlines(keepends=True) if not line.startswith("  assert_layout")]
    assert SAVED in "".join(lines)
    assert RESTORED in backward


def _layer(dropout: float) -> nn.Module:
    torch.manual_seed(2)
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=dropout, batch_first=True).train()


def _steps(layer: nn.Module, run: Run) -> list[Tensor]:
    """Results, all gradients and the random state of two steps of a layer."""
    tensors = []
    torch.manual_seed(3)
    for step in range(2):
        x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(step), requires_grad=True)
        y = run(x)
        (y * y).sum().backward()  # type: ignore[no-untyped-call]  # torch's
        tensors += [y.detach(), *(p.grad.clone() for p in (x, *layer.parameters()) if p.grad is not None)]
        tensors.append(torch.get_rng_state())
    return tensors


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
@pytest.mark.parametrize("dropout", [0.0, 0.3], ids=["attention of two results", "dropout of two results"])
def test_attention_is_recomputed_as_eager_does(dropout: float, emitter: str) -> None:
    """Masks of the recomputation are those of forward: gradients would differ from eager's otherwise."""
    layer = _layer(dropout)
    with inductor_config.patch(fallback_random=True):
        want = _steps(layer, lambda x: checkpoint(layer, x, use_reentrant=False))
        layer = _layer(dropout)
        options: dict[str, Any] = {"emitter": emitter, "on_unsupported": "error"}
        compiled = torch.compile(
            lambda x: checkpoint(layer, x, use_reentrant=False), backend="wrapper_ir", options=options
        )
        torch.testing.assert_close(_steps(layer, compiled), want, rtol=1e-4, atol=1e-4)


_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_DROPOUT = torch.ops.aten.native_dropout.default


@pytest.mark.parametrize(
    ("operator", "returns"),
    [
        (_ATTENTION, "(Tensor, (Tensor, Tensor))"),
        (_DROPOUT, "(Tensor, (Tensor, Tensor))"),
        (torch.ops.aten.rand.default, "(Tensor, Tensor)"),
        (torch.ops.aten._foreach_add.Scalar, "(Tensor, Tensor[])"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_results_within_results_have_no_names(operator: Any, returns: str) -> None:
    schema = random_def(torch.ops.higher_order.run_and_save_rng_state, operator).schema
    assert schema.endswith(f" -> {returns}")
    ir.parse_schema(schema)
