"""Views of arguments that fit for some sizes only: what cannot be shown is checked at run time.

Upstream takes an index for valid where it cannot tell (`x[1]` of any number of rows), and lets a model view its
arguments by sizes of its own (`as_strided`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wrapper_ir.errors import Diagnostic
from wrapper_ir.expr import Expr, Int, add, and_, floordiv, le
from wrapper_ir.layout import extent_bytes, extent_elements
from wrapper_ir.ops import AssertExpr, Op, View
from wrapper_ir.program import Function, Program
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["check_views"]

_OUTSIDE = "WIR050"


def check_views(program: Program, found: Iterable[Diagnostic]) -> Program:
    """The program with a check before every view of a parameter that the verifier's findings name as possibly outside
    of it; the same program where there is none."""
    places = {(d.function, d.op_index) for d in found if d.code == _OUTSIDE}
    if not places:
        return program
    functions = [_checked(f, {index for name, index in places if name == f.name}) for f in program.functions]
    return replace(program, functions=tuple(functions))


def _checked(function: Function, positions: set[int]) -> Function:
    params = {p.value for p in function.params}
    starts: dict[Value, tuple[Value, Expr]] = {}
    body: list[Op] = []
    for position, op in enumerate(function.body):
        if isinstance(op, View):
            root, start = starts.get(op.source, (op.source, Int(0)))
            starts[op.result] = (root, add(start, op.offset))
            if position in positions and root in params:
                body.append(_check(op, root, add(start, op.offset)))
        body.append(op)
    return replace(function, body=tuple(body))


def _check(op: View, root: Value, start: Expr) -> AssertExpr:
    """All in elements of the view."""
    viewed, whole = op.result.type, root.type
    assert isinstance(viewed, TensorType)
    assert isinstance(whole, TensorType)
    first = floordiv(start, viewed.dtype.itemsize)
    have = floordiv(extent_bytes(whole), viewed.dtype.itemsize)
    need = add(first, extent_elements(viewed.sizes, viewed.strides))
    return AssertExpr(
        condition=and_(le(0, first), le(need, have)),
        message=f"a view would reach outside of {root.name}",
        prov=op.prov,
    )
