"""Values that launches and operators read and write, with the positions where they can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A launch or a call of an operator.

    `begin` is its position. After `end`, its results are available: a nested result is unpacked, a collective
    is waited for.
    """

    name: str
    begin: int
    end: int
    reads: tuple[ir.Arg, ...]
    writes: tuple[ir.Arg, ...]
    stream: int
    device: ir.Device | None
    prov: ir.Provenance


def calls_of(function: ir.Function, analyses: Analyses, operators: bool) -> Iterator[CallView]:
    """Returns calls in the order of the program; those of operators only if asked."""
    aliasing = analyses.aliasing(function)
    empty: set[ir.Value] = set()
    """Roots that nothing has written yet: operators that write in place may be given them (`copy_`)."""
    for position, op in enumerate(function.body):
        effects = aliasing.effects[position]
        match op:
            case ir.AllocStorage(zero=ir.ZeroMode.NONE) | ir.Slot(zero=ir.ZeroMode.NONE):
                empty.add(op.result)
            case ir.CallExtern() | ir.CollectiveStart() if not operators:
                pass
            case ir.Launch() | ir.CallExtern() | ir.CollectiveStart():
                read = {v for v in effects.reads if empty.isdisjoint(aliasing.roots.get(v, NO_ROOTS))}
                yield _view(function, position, op, read, set(effects.writes))
            case _:
                pass
        for value in effects.writes:
            empty.difference_update(aliasing.roots.get(value, NO_ROOTS))


def _view(
    function: ir.Function, position: int, op: ir.OutsideCall, reads: set[ir.Value], writes: set[ir.Value]
) -> CallView:
    match op:
        case ir.Launch():
            args = tuple(dict.fromkeys(_flat(op.args)))
        case ir.CallExtern() | ir.CollectiveStart():
            args = tuple(dict.fromkeys(_flat((op.args, op.kwargs))))
    end, results = _results(function, position, op)
    return CallView(
        name=ir.callee_name(op),
        begin=position,
        end=end,
        reads=tuple(a for a in args if not ir.is_tensor(a) or a in reads),
        writes=(*(a for a in args if ir.is_tensor(a) and a in writes), *results),
        stream=op.stream,
        device=next((a.type.device for a in args if ir.is_tensor(a)), None),
        prov=op.prov,
    )


def _results(function: ir.Function, position: int, op: ir.Op) -> tuple[int, tuple[ir.Value, ...]]:
    """Returns the position after which results are available, and those that can be shown.

    Nested results are available directly after the call's unpacks, those of collectives after their wait.
    """
    ready = isinstance(op, ir.CallExtern)
    values = [v for v in ir.results(op) if ready and _is_shown(v)]
    waiting = set(ir.results(op)).difference(values)
    end = position
    for later in range(position + 1, len(function.body)):
        step = function.body[later]
        if not waiting or (ready and not isinstance(step, ir.Unpack)):
            break
        match step:
            case ir.Unpack(source=source, result=result) | ir.Wait(source=source, result=result) if (
                source in waiting
            ):
                end = later
                if ir.is_tensor(source):  # waited for; a nested result has more parts
                    waiting.discard(source)
                if _is_shown(result):
                    values.append(result)
                else:
                    waiting.add(result)
            case _:
                pass
    return end, tuple(values)


def _is_shown(value: ir.Value) -> bool:
    return ir.is_tensor(value) or ir.is_scalar(value)


def _flat(arg: object) -> Iterator[ir.Value | Expr]:
    """Yields the values and expressions of nested arguments; names of keywords are texts."""
    match arg:
        case ir.Value() | Expr():
            yield arg
        case tuple():
            for item in arg:
                yield from _flat(item)
        case _:
            pass
