"""Facts about replayable functions, which every emitter passes to its runtime."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_lowering.steps import ReplayFacts


def plan_replay(function: ir.Function, analyses: Analyses) -> ReplayFacts | None:
    """The facts; None for a function that is not replayable, or has no memory on any device."""
    device = next((d for v in ir.definitions(function) if (d := ir.device_of(v)) is not None), None)
    if not function.replayable or device is None:
        return None
    params = [*enumerate(function.params)]
    lent = {i for i, p in params if ir.is_storage(p.value)}
    return ReplayFacts(
        device=device,
        tensors=tuple([i for i, p in params if i in lent or ir.is_tensor(p.value)]),
        static=tuple([i for i, p in params if i in lent or p.static]),
        written=tuple(sorted(analyses.summary(function.name).written_params | lent)),
        given=tuple([i for i, p in params if p.ownership is ir.Ownership.OWNED]),
    )
