"""Peaks of training steps of planned programs, against the bound and Inductor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch._inductor.utils import run_fw_bw_and_get_code

from tests.common.compare import peak_bytes
from tests.common.zoo import Case
from tests.models.training_cases import loss_of
from tools.bench.large_models import TRAINED
from tools.bench.memory_sides import Planned, allocations, allocations_in
from tools.bench.pages import table
from wrapper_ir_passes.analysis.stats import program_stats

TEXT = """\
Forward and backward graph of one step each, with gradients into empty parameters. Bytes held are above what each graph is given:
saved activations count in the forward graph, whose results they are. The measured peak is that of the whole step, without
operators' workspaces."""
HEADERS = (
    "model", "graph", "live bytes", "bound as planned", "held", "held / bound", "allocations, no plan", "planned",
    "Inductor",
)  # fmt: skip
PEAK_HEADERS = ("model", "measured", "Inductor", "of Inductor")

Model = Callable[..., Any]  # Any: a model's results are its own


def _case(name: str) -> Case:
    """In training mode, without dropout."""
    case = TRAINED[name]()
    case.model.train()
    for module in case.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return case


def _forward(call: Model, case: Case) -> torch.Tensor:
    case.model.zero_grad(set_to_none=True)
    return loss_of(call(*case.args, **dict(case.kwargs or {})))


def _step(call: Model, case: Case) -> None:
    _forward(call, case).backward()  # type: ignore[no-untyped-call]  # torch leaves it so


def _peak(call: Model, case: Case) -> int:
    peak = peak_bytes(partial(_step, call, case), workspaces=False)
    case.model.zero_grad(set_to_none=True)
    return peak


def _measured(name: str) -> tuple[list[list[object]], list[object]]:
    """Rows of the two graphs, and the row of the step."""
    case, emitter = _case(name), Planned()
    torch._dynamo.reset()
    # Any: torch's type has no emitters
    options: dict[str, Any] = {"emitter": emitter, "cache": False, "on_unsupported": "error"}
    call = torch.compile(case.model, backend="wrapper_ir", options=options)
    _step(call, case)
    ours = _peak(call, case)
    torch._dynamo.reset()
    stock = torch.compile(case.model)
    with inductor_config.patch(force_disable_caches=True):
        _, codes = run_fw_bw_and_get_code(partial(_forward, stock, case))
    theirs = _peak(stock, case)
    counts: Sequence[object] = (
        [allocations_in([code]) for code in codes] if len(codes) == len(emitter.after) else ["", ""]
    )
    graphs: list[list[object]] = []
    for graph, before, after, count in zip(
        ("forward", "backward"), emitter.before, emitter.after, counts, strict=True
    ):
        was, memory = program_stats(before).memory, program_stats(after).memory
        graphs.append(
            [
                name, graph, f"{was.live:,}", f"{memory.bound:,}", f"{memory.peak:,}",
                f"{memory.peak / memory.bound:.3f}", allocations(before), allocations(after), count,
            ]
        )  # fmt: skip
    return graphs, [name, f"{ours:,}", f"{theirs:,}", f"{ours / theirs:.2f}"]


def text(names: Iterable[str] = TRAINED) -> str:
    """The section, measured."""
    measurements = [_measured(name) for name in names]
    graphs = table(HEADERS, [row for rows, _ in measurements for row in rows])
    peaks = table(PEAK_HEADERS, [row for _, row in measurements])
    return f"{TEXT}\n\n{graphs}\n\n{peaks}"
