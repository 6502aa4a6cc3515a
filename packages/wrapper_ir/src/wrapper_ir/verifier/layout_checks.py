"""Checks of tensors whose types nothing else holds them to: outputs that a library may resize, parameters and results of
the program's own functions."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.references import loop_bodies
from wrapper_ir.expr import Expr, Int, Sym
from wrapper_ir.ir import ops
from wrapper_ir.ir.atoms import SizeOf, StrideOf
from wrapper_ir.ir.layout import type_symbols
from wrapper_ir.ir.program import Function
from wrapper_ir.ir.structure import callees, is_used
from wrapper_ir.ir.types import TensorType
from wrapper_ir.ir.values import Value, is_tensor
from wrapper_ir.verifier.checks.shapes import CHECKED_OUTPUTS

_LOOK_AHEAD = 16
"""Ops after a position that are searched for an assertion of an earlier run."""


def layout_checks(function: Function, analyses: Analyses) -> Iterator[tuple[int, ops.AssertLayout]]:
    """Assertions, each with the position of the op that it is put before. Assertions that are there already are left out."""
    known = {*function.captures, *(op.symbol for op in function.body if isinstance(op, ops.Define))}
    for position, check in _all(function, analyses):
        symbols = frozenset[str]().union(
            *(e.free_symbols for shape in (*check.sizes, *check.strides) for e in shape)
        )
        # a size under a symbol that has no value in this function says nothing here
        if symbols <= known and check not in function.body[position : position + _LOOK_AHEAD]:
            yield position, check


def output_checks(function: Function, analyses: Analyses) -> Iterator[tuple[int, ops.AssertLayout]]:
    """As `layout_checks`, of outputs and of stacked trips alone: all that a program without symbols needs."""
    for position, op in enumerate(function.body):
        checks: Iterator[ops.AssertLayout] = iter(())
        if isinstance(op, ops.CallExtern):
            checks = _outputs(op, analyses)
        elif isinstance(op, ops.WhileLoop) and op.stacked:
            checks = (_check(value, "a result", op) for value in _unlike(op, analyses))
        for check in checks:
            if check not in function.body[position + 1 : position + 1 + _LOOK_AHEAD]:
                yield position + 1, check


def _all(function: Function, analyses: Analyses) -> Iterator[tuple[int, ops.AssertLayout]]:
    defined = {op.symbol: position for position, op in enumerate(function.body) if isinstance(op, ops.Define)}
    if function is not analyses.program.main:
        yield from _parameters(function, defined)
    for position, op in enumerate(function.body):
        if isinstance(op, ops.CallExtern):
            yield from ((position + 1, check) for check in _outputs(op, analyses))
        elif isinstance(op, ops.CallSubgraph | ops.Switch | ops.WhileLoop):
            for value in _unlike(op, analyses):
                place = _after(value, defined, position)
                if is_used(value, function.body[place:]):  # else it may have ended
                    yield place, _check(value, "a result", op)
    if function.name in analyses.get(loop_bodies):
        yield from _carried(function)


def _check(
    value: Value[TensorType], what: str, op: ops.Op, type: TensorType | None = None
) -> ops.AssertLayout:
    """That a tensor has the layout of `type`, by default its own."""
    type = type or value.type
    return ops.AssertLayout(
        tensors=(value,), sizes=(type.sizes,), strides=(type.strides,), message=what, prov=op.prov
    )


def _after(value: Value[TensorType], defined: dict[str, int], position: int) -> int:
    """The position after the op and after the definitions of the symbols in the value's type."""
    return 1 + max(position, *(defined.get(name, -1) for name in type_symbols(value.type)), -1)


def _outputs(op: ops.CallExtern, analyses: Analyses) -> Iterator[ops.AssertLayout]:
    """A library resizes an output of another shape than its result, unless the verifier knows the shape."""
    info = analyses.extern_info.get(op.target)
    if info is None or not info.outs or op.target in CHECKED_OUTPUTS:
        return
    for name, arg in op.kwargs:
        for value in _tensors(arg) if name in info.outs else ():
            yield _check(value, f"out argument of {op.target}", op)


def _tensors(arg: ops.Arg) -> Iterator[Value[TensorType]]:
    if is_tensor(arg):
        yield arg
    elif isinstance(arg, tuple):
        for item in arg:
            yield from _tensors(item)


def _parameters(function: Function, defined: dict[str, int]) -> Iterator[tuple[int, ops.AssertLayout]]:
    """A caller's arguments are equal to what a parameter says in numbers and captured symbols, and in symbols that the
    function reads off parameters; other sizes say something of their own."""
    read = set(function.captures)
    for op in function.body:
        if isinstance(op, ops.Define) and _is_read(op):
            read.add(op.symbol)
    for param in function.params:
        value = param.value
        if not is_tensor(value):
            continue
        dims = (*value.type.sizes, *value.type.strides)
        if all(
            e.free_symbols <= set(function.captures) or (isinstance(e, Sym) and e.name in read) for e in dims
        ):
            continue
        position = _after(value, defined, -1)
        if is_used(value, function.body[position:]):  # else it may have ended
            yield position, _check(value, "a parameter", function.body[max(position - 1, 0)])


def _carried(body: Function) -> Iterator[tuple[int, ops.AssertLayout]]:
    """The next trip of a loop gets what this one returns: it has the layout of the parameter where that says one."""
    for param, value in zip(body.params, body.returns.values, strict=False):
        type = param.value.type
        if not isinstance(type, TensorType) or not is_tensor(value):
            continue
        # a type over captured symbols says more than that there are sizes
        if type_symbols(type) & set(body.captures) and not _same(type, value, body):
            yield len(body.body) - 1, _check(value, "carried", body.returns, type)


def _is_read(op: ops.Define) -> bool:
    """Whether a symbol is a size of a tensor whose type has that symbol there."""
    if not isinstance(op.expr, SizeOf | StrideOf) or not isinstance(op.expr.value.type, TensorType):
        return False
    type = op.expr.value.type
    dims = type.sizes if isinstance(op.expr, SizeOf) else type.strides
    return dims[op.expr.dim] == Sym(op.symbol)


def _unlike(
    op: ops.CallSubgraph | ops.Switch | ops.WhileLoop, analyses: Analyses
) -> Iterator[Value[TensorType]]:
    """Results whose types are other expressions than those of what a function returns. How many trips a loop makes, and so
    how long its stacked results are, is known only after it."""
    if isinstance(op, ops.WhileLoop) and op.stacked:
        yield from filter(is_tensor, op.results)
        return
    names = (op.body_fn,) if isinstance(op, ops.WhileLoop) else callees(op)
    functions = [analyses.functions[name] for name in names]
    for number, result in enumerate(op.results):
        if not is_tensor(result):
            continue
        same = all(_same(result.type, f.returns.values[number], f) for f in functions)
        if isinstance(op, ops.WhileLoop):  # without a trip, a result is what was carried in
            carried = op.carried[number]
            same = same and isinstance(carried, Value) and carried.type == result.type
        if not same:
            yield result


def _same(type: TensorType, returned: ops.Arg, function: Function) -> bool:
    if not is_tensor(returned):
        return False
    pairs = [*zip(type.sizes, returned.type.sizes), *zip(type.strides, returned.type.strides)]
    return all(_same_number(a, b, function) for a, b in pairs)


def _same_number(a: Expr, b: Expr, function: Function) -> bool:
    return a == b and (isinstance(a, Int) or a.free_symbols <= set(function.captures))
