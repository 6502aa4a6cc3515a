"""Finds collectives that are waited for before other work is queued: start and wait become one step."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir import ir
from wrapper_ir.operators.collectives import FINISHABLE


def joined_results(body: Sequence[ir.Op]) -> frozenset[ir.Value[ir.TensorType]]:
    """The results of collectives that may finish when they are started.

    Between the start and the last wait, nothing that could overlap is queued. No other collective is in
    flight either, because its communicator would be used on two streams at a time.
    """
    finishable, in_flight = set[ir.Value[ir.TensorType]](), set[ir.Value[ir.TensorType]]()
    for position, op in enumerate(body):
        match op:
            case ir.Wait():
                in_flight.discard(op.source)
            case ir.CollectiveStart():
                starts = op.target in FINISHABLE and not op.stream and not in_flight
                if starts and _is_waited_for_at_once(op, body, position):
                    finishable.update(op.results)
                in_flight.update(op.results)
            case _:
                pass
    return frozenset(finishable)


def _is_waited_for_at_once(start: ir.CollectiveStart, body: Sequence[ir.Op], position: int) -> bool:
    waiting = set(start.results)
    for op in body[position + 1 :]:
        if isinstance(op, ir.Wait) and op.source in waiting:
            waiting.discard(op.source)
        elif not _queues_nothing(op):
            return False
        if not waiting:
            return True
    return False


def _queues_nothing(op: ir.Op) -> bool:
    match op:
        case ir.AllocStorage():
            return op.zero is ir.ZeroMode.NONE and not op.result.type.is_group_memory
        case ir.View():
            return op.mode is ir.ViewMode.ALIAS
        case ir.Comment() | ir.Drop() | ir.Free() | ir.AssertLayout():
            return True
        case _:
            return False
