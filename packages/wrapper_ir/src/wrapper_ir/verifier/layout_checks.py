"""Checks of tensors whose types nothing else holds them to: outputs that a library may resize, parameters and results of
the program's own functions."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.references import loop_bodies
from wrapper_ir.expr import Expr, Int, Sym
from wrapper_ir.verifier.checks.shapes import CHECKED_OUTPUTS

_LOOK_AHEAD = 16
"""Ops after a position that are searched for an assertion of an earlier run."""


def layout_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """Assertions, each with the position of the op that it is put before. Assertions that are there already are left out."""
    known = {*function.captures, *(op.symbol for op in function.ops_of(ir.Define))}
    for position, check in _all(function, analyses):
        symbols = frozenset[str]().union(
            *(e.free_symbols for shape in (*check.sizes, *check.strides) for e in shape)
        )
        # a size under a symbol that has no value in this function says nothing here
        if symbols <= known and check not in function.body[position : position + _LOOK_AHEAD]:
            yield position, check


def output_checks(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    """As `layout_checks`, of outputs and of stacked trips alone: all that a program without symbols needs."""
    for position, op in enumerate(function.body):
        checks: Iterator[ir.AssertLayout] = iter(())
        if isinstance(op, ir.CallExtern):
            checks = _outputs(op, analyses)
        elif isinstance(op, ir.WhileLoop) and op.stacked:
            checks = (_check(value, "a result", op) for value in _unlike(op, analyses))
        for check in checks:
            if check not in function.body[position + 1 : position + 1 + _LOOK_AHEAD]:
                yield position + 1, check


def _all(function: ir.Function, analyses: Analyses) -> Iterator[tuple[int, ir.AssertLayout]]:
    defined = {op.symbol: position for position, op in function.positions_of(ir.Define)}
    if function is not analyses.program.main:
        yield from _parameters(function, defined)
    for position, op in enumerate(function.body):
        if isinstance(op, ir.CallExtern):
            yield from ((position + 1, check) for check in _outputs(op, analyses))
        elif isinstance(op, ir.CallingOp):
            for value in _unlike(op, analyses):
                place = _after(value, defined, position)
                if ir.is_used(value, function.body[place:]):  # else it may have ended
                    yield place, _check(value, "a result", op)
    if function.name in analyses.get(loop_bodies):
        yield from _carried(function)


def _check(
    value: ir.Value[ir.TensorType], what: str, op: ir.Op, type: ir.TensorType | None = None
) -> ir.AssertLayout:
    """That a tensor has the layout of `type`, by default its own."""
    type = type or value.type
    return ir.AssertLayout(
        tensors=(value,), sizes=(type.sizes,), strides=(type.strides,), message=what, prov=op.prov
    )


def _after(value: ir.Value[ir.TensorType], defined: dict[str, int], position: int) -> int:
    """The position after the op and after the definitions of the symbols in the value's type."""
    return 1 + max(position, *(defined.get(name, -1) for name in ir.type_symbols(value.type)), -1)


def _outputs(op: ir.CallExtern, analyses: Analyses) -> Iterator[ir.AssertLayout]:
    """A library resizes an output of another shape than its result, unless the verifier knows the shape."""
    info = analyses.extern_info.get(op.target)
    if info is None or not info.outs or op.target in CHECKED_OUTPUTS:
        return
    for name, arg in op.kwargs:
        for value in _tensors(arg) if name in info.outs else ():
            yield _check(value, f"out argument of {op.target}", op)


def _tensors(arg: ir.Arg) -> Iterator[ir.Value[ir.TensorType]]:
    if ir.is_tensor(arg):
        yield arg
    elif isinstance(arg, tuple):
        for item in arg:
            yield from _tensors(item)


def _parameters(function: ir.Function, defined: dict[str, int]) -> Iterator[tuple[int, ir.AssertLayout]]:
    """A caller's arguments are equal to what a parameter says in numbers and captured symbols, and in symbols that the
    function reads off parameters; other sizes say something of their own."""
    read = set(function.captures)
    for op in function.body:
        if isinstance(op, ir.Define) and _is_read(op):
            read.add(op.symbol)
    for param in function.params:
        value = param.value
        if not ir.is_tensor(value):
            continue
        dims = (*value.type.sizes, *value.type.strides)
        if all(
            e.free_symbols <= set(function.captures) or (isinstance(e, Sym) and e.name in read) for e in dims
        ):
            continue
        position = _after(value, defined, -1)
        if ir.is_used(value, function.body[position:]):  # else it may have ended
            yield position, _check(value, "a parameter", function.body[max(position - 1, 0)])


def _carried(body: ir.Function) -> Iterator[tuple[int, ir.AssertLayout]]:
    """The next trip of a loop gets what this one returns: it has the layout of the parameter where that says one."""
    for param, value in zip(body.params, body.returns.values, strict=False):
        type = param.value.type
        if not isinstance(type, ir.TensorType) or not ir.is_tensor(value):
            continue
        # a type over captured symbols says more than that there are sizes
        if ir.type_symbols(type) & set(body.captures) and not _same(type, value, body):
            yield len(body.body) - 1, _check(value, "carried", body.returns, type)


def _is_read(op: ir.Define) -> bool:
    """Whether a symbol is a size of a tensor whose type has that symbol there."""
    if not isinstance(op.expr, ir.SizeOf | ir.StrideOf) or not ir.is_tensor(op.expr.value):
        return False
    type = op.expr.value.type
    dims = type.sizes if isinstance(op.expr, ir.SizeOf) else type.strides
    return dims[op.expr.dim] == Sym(op.symbol)


def _unlike(op: ir.CallingOp, analyses: Analyses) -> Iterator[ir.Value[ir.TensorType]]:
    """Results whose types are other expressions than those of what a function returns. How many trips a loop makes, and so
    how long its stacked results are, is known only after it."""
    if isinstance(op, ir.WhileLoop) and op.stacked:
        yield from filter(ir.is_tensor, op.results)
        return
    names = (op.body_fn,) if isinstance(op, ir.WhileLoop) else ir.callees(op)
    functions = [analyses.functions[name] for name in names]
    for number, result in enumerate(op.results):
        if not ir.is_tensor(result):
            continue
        same = all(_same(result.type, f.returns.values[number], f) for f in functions)
        if isinstance(op, ir.WhileLoop):  # without a trip, a result is what was carried in
            carried = op.carried[number]
            same = same and isinstance(carried, ir.Value) and carried.type == result.type
        if not same:
            yield result


def _same(type: ir.TensorType, returned: ir.Arg, function: ir.Function) -> bool:
    if not ir.is_tensor(returned):
        return False
    pairs = [*zip(type.sizes, returned.type.sizes), *zip(type.strides, returned.type.strides)]
    return all(_same_number(a, b, function) for a, b in pairs)


def _same_number(a: Expr, b: Expr, function: ir.Function) -> bool:
    return a == b and (isinstance(a, Int) or a.free_symbols <= set(function.captures))
