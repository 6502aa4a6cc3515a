"""Creates assertions for tensors whose layouts nothing else guarantees: out arguments that a library may
resize, and parameters and results of the program's functions."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.references import loop_bodies
from wrapper_ir.analysis.sizes import declared_size
from wrapper_ir.expr import Expr, Sym
from wrapper_ir.verifier.checks.shapes import CHECKED_OUTPUTS

_LOOK_AHEAD = 16
"""Number of ops after a position that are searched for an assertion of an earlier run."""


def layout_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Assertions, each with the position of the op to insert it before, except those that already exist."""
    defined = {*function.captures, *(op.symbol for op in function.ops_of(ir.Define))}
    for position, check in _all(function, analyses):
        symbols = frozenset[str]().union(*(e.free_symbols for e in ir.exprs(check)))
        # a symbol without a value in this function cannot be checked here
        if symbols <= defined and check not in function.body[position : position + _LOOK_AHEAD]:
            yield position, check


def output_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Like `layout_checks`, but only for out arguments and stacked trips, which suffices for a program
    without symbols."""
    for position, op in function.positions_of(ir.CallExtern, ir.WhileLoop):
        checks: Iterator[ir.AssertLayout] = iter(())
        match op:
            case ir.CallExtern():
                checks = _outputs(op, analyses)
            case ir.WhileLoop() if op.stacked:
                checks = (_check(value, "a result", op) for value in _differing(op, analyses))
            case _:
                pass
        for check in checks:
            if check not in function.body[position + 1 : position + 1 + _LOOK_AHEAD]:
                yield position + 1, check


def _all(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    defined = {op.symbol: position for position, op in function.positions_of(ir.Define)}
    if function is not analyses.program.main:
        yield from _parameters(function, defined)
    for position, op in enumerate(function.body):
        match op:
            case ir.CallExtern():
                yield from ((position + 1, check) for check in _outputs(op, analyses))
            case ir.CallSubgraph() | ir.Switch() | ir.WhileLoop():
                for value in _differing(op, analyses):
                    place = _after(value, defined, position)
                    if ir.is_used(value, function.body[place:]):  # otherwise it may have been freed
                        yield place, _check(value, "a result", op)
            case _:
                pass
    if function.name in analyses.get(loop_bodies):
        yield from _carried(function)


def _check(
    value: ir.Value[ir.TensorType], what: str, op: ir.Op, type: ir.TensorType | None = None
) -> ir.AssertLayout:
    """Asserts that a tensor has the layout of `type`, by default of the tensor's type."""
    type = type or value.type
    return ir.AssertLayout(
        tensors=(value,), sizes=(type.sizes,), strides=(type.strides,), message=what, prov=op.prov
    )


def _after(value: ir.Value[ir.TensorType], defined: dict[str, int], position: int) -> int:
    """The position after the op and after the definitions of the symbols in the value's type."""
    return 1 + max(position, *(defined.get(name, -1) for name in ir.type_symbols(value.type)), -1)


def _outputs(op: ir.CallExtern, analyses: Analyses) -> Iterator[ir.AssertLayout]:
    """Checks out arguments, because a library resizes those of another shape than its result. The verifier
    checks the shapes of `CHECKED_OUTPUTS`."""
    info = analyses.extern_info.get(op.target)
    if info is None or not info.outs or op.target in CHECKED_OUTPUTS:
        return
    for name, arg in op.kwargs:
        if name in info.outs:
            for value in filter(ir.is_tensor, ir.values_in(arg, [])):
                yield _check(value, f"out argument of {op.target}", op)


def _parameters(function: ir.Function, defined: dict[str, int]) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Checks parameters with sizes that a call does not guarantee. A call guarantees sizes that are
    constants, depend on captured symbols, or are symbols that the function reads from a parameter."""
    captures = set(function.captures)
    read = captures | {op.symbol for op in function.ops_of(ir.Define) if _is_read(op)}
    for param in function.params:
        value = param.value
        if not ir.is_tensor(value):
            continue
        dims = (*value.type.sizes, *value.type.strides)
        if all(e.free_symbols <= captures or e.symbol in read for e in dims):
            continue
        position = _after(value, defined, -1)
        if ir.is_used(value, function.body[position:]):  # otherwise it may have been freed
            yield position, _check(value, "a parameter", function.body[max(position - 1, 0)])


def _carried(body: ir.Function) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Checks results of a loop body, which are arguments of the next trip, against the layouts of
    parameters."""
    for param, value in zip(body.params, body.returns.values, strict=False):
        if not ir.is_tensor(param.value) or not ir.is_tensor(value):
            continue
        type = param.value.type
        # symbols that are not captured have the value of each argument
        if ir.type_symbols(type) & set(body.captures) and not _same(type, value, body):
            yield len(body.body) - 1, _check(value, "carried", body.returns, type)


def _is_read(op: ir.Define) -> bool:
    """Returns whether the op reads a symbol from a size or stride that is this symbol in the tensor's
    type."""
    return declared_size(op.expr) == Sym(op.symbol)


def _differing(op: ir.CallingOp, analyses: Analyses) -> Iterator[ir.Value[ir.TensorType]]:
    """Results whose types have other expressions than the values that a function returns. The number of
    trips, which is the size of stacked results, is known only after the loop."""
    loop = op if isinstance(op, ir.WhileLoop) else None
    if loop is not None and loop.stacked:
        yield from filter(ir.is_tensor, loop.results)
        return
    names = ir.callees(op) if loop is None else (loop.body_fn,)
    functions = [analyses.functions[name] for name in names]
    for number, result in enumerate(op.results):
        if not ir.is_tensor(result):
            continue
        same = all(_same(result.type, f.returns.values[number], f) for f in functions)
        if loop is not None:  # without a trip, a result is the carried argument
            carried = loop.carried[number]
            same = same and ir.is_tensor(carried) and carried.type == result.type
        if not same:
            yield result


def _same(type: ir.TensorType, returned: ir.Arg, function: ir.Function) -> bool:
    if not ir.is_tensor(returned):
        return False
    pairs = [*zip(type.sizes, returned.type.sizes), *zip(type.strides, returned.type.strides)]
    return all(_same_number(a, b, function) for a, b in pairs)


def _same_number(a: Expr, b: Expr, function: ir.Function) -> bool:
    return a == b and a.free_symbols <= set(function.captures)
