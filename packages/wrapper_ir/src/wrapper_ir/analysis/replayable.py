"""Reasons why a device cannot capture one op and replay it correctly.

`Function.replayable` documents the guarantees of a replay. The verifier applies these rules to each op of
a replayable function, and `cuda-graphs` to each candidate op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.operators.symmetric import uses_workspace

Refusal = tuple[str, str]
"""A code of the verifier, and the reason."""

_UNKNOWN_TO_A_REPLAY = frozenset({ir.EffectClass.EFFECT, ir.EffectClass.HOST_IO})


def refusals(op: ir.Op, analyses: Analyses) -> Iterator[Refusal]:
    """The reasons why an op by itself cannot be captured. Devices, the order of streams and callees are
    properties of the function, and are checked elsewhere."""
    for value in dict.fromkeys((*ir.results(op), *ir.operands(op))):
        device = ir.device_of(value)
        if device is not None and device.type == ir.CPU.type:
            yield "WIR226", f"%{value.name} is on {device}"
    match op:
        case ir.Define():
            yield from _define(op, analyses)
        case ir.Switch(index=ir.Value() as index) if ir.is_tensor(index):
            yield "WIR225", f"only a run knows %{index.name}"
        case ir.WhileLoop():
            yield "WIR225", "only a run knows how often a loop is run"
        case ir.SyncEvent() | ir.AssertFinite() | ir.DebugValue():
            yield "WIR225", "the host waits for the device here"
        case ir.CallExtern() | ir.CollectiveStart():
            yield from _call(op, analyses)
        case ir.Unpack():
            yield from _number(op.result)
        case ir.Launch() if isinstance(analyses.kernels.get(op.kernel), ir.CppKernel):
            yield "WIR226", f"@{op.kernel} runs on the CPU"
        case ir.ResizeStorage() | ir.SetStorage():
            yield "WIR227", f"the storage of %{op.target.name} is another after it"
        case ir.EnterMemoryPool():
            yield "WIR227", "a graph's memory comes from its own pool"
        case _:
            pass


def communicates(op: ir.Op, analyses: Analyses) -> bool:
    """Returns whether an op communicates with other processes."""
    return ir.EffectClass.COLLECTIVE in op.effects(analyses).classes


def _define(op: ir.Define, analyses: Analyses) -> Iterator[Refusal]:
    symbol = analyses.symbols.get(op.symbol)
    unknown = symbol is not None and not symbol.backed
    if any(map(ir.is_tensor, ir.item_values(op.expr))) or (
        unknown and any(map(ir.is_tensor, ir.free_values(op.expr)))
    ):
        yield "WIR225", f"only a run knows {op.symbol}"


def _call(op: ir.OperatorCall, analyses: Analyses) -> Iterator[Refusal]:
    if not _UNKNOWN_TO_A_REPLAY.isdisjoint(op.effects(analyses).classes):
        yield "WIR225", f"{op.target} does something that a replay does not"
    info = analyses.operator(op.target)
    if info is not None and ir.ExternTag.CUDAGRAPH_UNSAFE in info.extern.tags:
        yield "WIR225", f"{op.target} is marked as one that cannot be captured"
    if info is not None and uses_workspace(info.schema):
        # if a later call needs a larger workspace, torch reallocates it; a graph would still use the old
        # one
        yield "WIR225", f"{op.target} uses memory that the group has from torch, which may move"
    if isinstance(op, ir.CallExtern):
        yield from _number(op.result)


def _number(result: ir.Value | None) -> Iterator[Refusal]:
    if result is not None and ir.is_scalar(result):
        yield "WIR225", f"only a run knows %{result.name}"


def replayed_functions(analyses: Analyses) -> Mapping[str, str]:
    """Maps each captured function to the replayable one that contains it: itself, or one that calls it."""
    roots: dict[str, str] = {}
    for function in analyses.program.functions:
        pending = [function.name] if function.replayable else []
        while pending:
            name = pending.pop()
            if name not in roots and name in analyses.functions:
                roots[name] = function.name
                pending += [callee for op in analyses.functions[name].body for callee in ir.callees(op)]
    return roots
