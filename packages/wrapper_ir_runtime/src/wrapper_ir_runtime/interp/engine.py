"""Executes functions op by op. It handles control flow; `handlers` executes all other ops."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.rebinding import rebound_by, rebound_constants
from wrapper_ir.errors import ArgumentError, ExecutionError, NotSupportedError
from wrapper_ir.expr import Number
from wrapper_ir_runtime.failures import select_branch
from wrapper_ir_runtime.interp.frame import Content, Frame, Session
from wrapper_ir_runtime.interp.handlers import check_layout, run_op
from wrapper_ir_runtime.interp.places import add_context

T = TypeVar("T")
MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """The next op to be executed. `values` and `symbols` are live views of the frame."""

    function: ir.Function
    position: int
    op: ir.Op
    values: Mapping[ir.Value, Content]
    symbols: Mapping[str, Number]
    depth: int
    frame: Frame[T]
    """The activation that executes the op. Changing its values changes the run."""


Results = tuple[Content, ...]
Run = Generator[Step[T], None, Results]


def activate(
    session: Session[T], name: str, args: list[Content], captured: Mapping[str, Number], depth: int = 0
) -> Run[T]:
    """Executes a function; yields before every op and returns the results. Empties `args`.

    Raises ExecutionError whose message shows the op and its source. Other errors pass through, with a note
    that shows these.
    """
    if depth > MAX_DEPTH:
        raise ExecutionError("WIR928", f"calls of @{name} nest deeper than {MAX_DEPTH}")
    return (yield from execute(_enter(session, name, args, captured, depth)))


def execute(frame: Frame[T], start: int = 0) -> Run[T]:
    """Executes the rest of an activation, from the op at `start`; see `activate`."""
    session, depth, function = frame.session, frame.depth, frame.info.function
    for position in range(start, len(function.body)):
        op = function.body[position]
        yield Step(function, position, op, frame.values, frame.symbols, depth, frame)
        try:
            _count(session)
            if isinstance(op, ir.Return):
                return _leave(op, frame)
            own = session.options.handlers.get(type(op))
            match op:
                case _ if own is not None:
                    own(op, frame)
                case ir.CallSubgraph():
                    yield from _call_subgraph(op, frame)
                case ir.Switch():
                    yield from _switch(op, frame)
                case ir.WhileLoop():
                    yield from _while_loop(op, frame)
                case _:
                    run_op(op, frame)
            frame.born(position)
            for value in rebound_by(op, session.analyses):
                frame.check_rebound(value)
            if depth == 0 and position in session.layouts:
                _check_layouts(session.layouts[position], frame)
        except NotSupportedError:
            raise
        except Exception as error:
            add_context(error, function, position)
            raise
    raise ExecutionError("WIR928", f"@{function.name} does not end in a return")


def _check_layouts(params: Sequence[ir.Value], frame: Frame[T]) -> None:
    """Checks parameters whose sizes and strides have just become known."""
    for value in params:
        assert ir.is_tensor(value)
        check_layout(value, value.type.sizes, value.type.strides, f"argument {value.name}", frame)


def _count(session: Session[T]) -> None:
    session.ops += 1
    limit = session.options.max_ops
    if limit is not None and session.ops > limit:
        raise ExecutionError("WIR928", f"stopped after {limit} ops")


def _enter(
    session: Session[T], name: str, args: list[Content], captured: Mapping[str, Number], depth: int
) -> Frame[T]:
    info = session.info(name)
    params = info.function.params
    if len(args) != len(params):
        missing = ", ".join(param.value.name for param in params[len(args) :])
        more = f"; missing: {missing}" if missing else ""
        raise ArgumentError("WIR926", f"@{name} takes {len(params)} arguments, got {len(args)}{more}")
    frame = Frame(session, info, depth)
    for param, arg in zip(params, args, strict=True):
        value = param.value
        if ir.is_tensor(value) and not session.machine.is_tensor(arg):
            raise ExecutionError("WIR926", f"%{value.name} of @{name} is a tensor, got {type(arg).__name__}")
        frame.bind(value, arg)
    args.clear()  # only the frame references them now, so that `free` ends them
    frame.symbols.update(captured)
    frame.born(-1)
    for value in rebound_constants(session.analyses) if depth == 0 else ():
        frame.check_rebound(value)
    return frame


def _leave(op: ir.Return, frame: Frame[T]) -> Results:
    results = tuple(frame.argument(value) for value in op.values)
    returned = {frame.machine.storage_key(r) for r in results if frame.machine.is_tensor(r)}
    for root, key in frame.roots.items():
        if key not in returned and frame.info.aliasing.owned.get(root, -1) >= 0:
            frame.session.meter.ended(key)  # never freed: ends with the frame
    return results


# --- calls


def _call(name: str, args: tuple[ir.Arg, ...], frame: Frame[T]) -> Run[T]:
    """Calls a function with arguments of this frame. Owned ones are moved."""
    contents = [frame.argument(arg) for arg in args]
    for param, arg in zip(frame.session.info(name).function.params, args):
        if param.ownership is ir.Ownership.OWNED and isinstance(arg, ir.Value):
            frame.move(arg)
    return (yield from _call_with(name, contents, frame))


def _call_with(name: str, contents: list[Content], frame: Frame[T]) -> Run[T]:
    function = frame.session.info(name).function
    captured = {symbol: frame.symbols[symbol] for symbol in function.captures if symbol in frame.symbols}
    if len(captured) != len(function.captures):
        missing = ", ".join(sorted(set(function.captures) - set(captured)))
        raise ExecutionError("WIR923", f"@{name} captures {missing}, which has no value here")
    return (yield from activate(frame.session, name, contents, captured, frame.depth + 1))


def _bind_results(values: tuple[ir.Value, ...], results: Results, frame: Frame[T]) -> None:
    if len(values) != len(results):
        raise ExecutionError("WIR926", f"{len(results)} results for {len(values)} values")
    for value, result in zip(values, results, strict=True):
        frame.bind(value, result)


def _call_subgraph(op: ir.CallSubgraph, frame: Frame[T]) -> Generator[Step[T], None, None]:
    results = yield from _call(op.function, op.args, frame)
    _bind_results(op.results, results, frame)


def _switch(op: ir.Switch, frame: Frame[T]) -> Generator[Step[T], None, None]:
    index = frame.item(frame.argument(op.index))
    results = yield from _call(select_branch(index, op.branches), op.args, frame)
    _bind_results(op.results, results, frame)


def _while_loop(op: ir.WhileLoop, frame: Frame[T]) -> Generator[Step[T], None, None]:
    machine, session = frame.machine, frame.session
    initial = [frame.argument(arg) for arg in op.carried]
    captured = [frame.argument(arg) for arg in op.captured]
    # Storages that the loop does not own: results in them are cloned.
    foreign = {machine.storage_key(x) for x in (*initial, *captured) if machine.is_tensor(x)}
    foreign |= {machine.storage_key(x) for value, x in session.constants.items() if ir.is_tensor(value)}
    carried = initial
    trips: list[list[Content]] = []
    while True:
        if not (yield from _goes_on(op, [*carried, *captured], foreign, frame)):
            break
        results = yield from _call_with(op.body_fn, [*carried, *captured], frame)
        _end_trip(carried, results, foreign, frame)
        carried = list(results)
        if op.stacked:
            trips.append([_clone(x, frame) for x in carried])
    final = _stack(trips or [initial], frame) if op.stacked else _fresh(carried, foreign, frame)
    _bind_results(op.results, tuple(final), frame)


def _goes_on(
    op: ir.WhileLoop, contents: list[Content], foreign: set[int], frame: Frame[T]
) -> Generator[Step[T], None, bool]:
    (go,) = yield from _call_with(op.cond_fn, contents, frame)
    if frame.machine.is_tensor(go) and frame.machine.storage_key(go) not in foreign:
        frame.session.meter.ended(frame.machine.storage_key(go))
    return bool(frame.item(go))


def _clone(x: Content, frame: Frame[T]) -> Content:
    return frame.machine.clone(x) if frame.machine.is_tensor(x) else x


def _end_trip(
    carried: Sequence[Content], results: Sequence[Content], foreign: set[int], frame: Frame[T]
) -> None:
    """Ends the carried storages of an iteration after the next iteration, unless its results reference
    them."""
    machine = frame.machine
    referenced = foreign | {machine.storage_key(x) for x in results if machine.is_tensor(x)}
    for x in carried:
        if machine.is_tensor(x) and machine.storage_key(x) not in referenced:
            frame.poison(machine.storage_of(x))
            frame.session.meter.ended(machine.storage_key(x))


def _fresh(results: Sequence[Content], foreign: set[int], frame: Frame[T]) -> list[Content]:
    """Returns the results in separate storages: foreign ones, and those shared with an earlier result, are
    cloned."""
    machine = frame.machine
    keys = set(foreign)
    final: list[Content] = []
    for x in results:
        if machine.is_tensor(x) and machine.storage_key(x) in keys:
            x = machine.clone(x)
        if machine.is_tensor(x):
            keys.add(machine.storage_key(x))
        final.append(x)
    return final


def _stack(trips: list[list[Content]], frame: Frame[T]) -> list[Content]:
    columns = zip(*trips, strict=True)
    return [frame.machine.stack(c) if frame.machine.is_tensor(c[0]) else c[-1] for c in columns]
