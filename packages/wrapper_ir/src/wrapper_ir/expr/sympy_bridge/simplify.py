"""Simplification of int arithmetic by sympy."""

from __future__ import annotations

import random

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, ExprLike, Number, SymKind
from wrapper_ir.expr.build import as_expr
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.expr.operators import CONVERSIONS, FUNCTIONS, WHERE
from wrapper_ir.expr.rewrite import rebuild
from wrapper_ir.expr.sympy_bridge.reader import from_sympy
from wrapper_ir.expr.sympy_bridge.writer import ToSympy

_SAMPLES = 12
_OPAQUE = frozenset((WHERE, *CONVERSIONS, *FUNCTIONS))


def simplify(e: ExprLike) -> Expr:
    """Simplifies the int arithmetic of `e` with sympy; floats and logic keep their structure.

    The result is compared with `e` on a few points and discarded if they differ or it has another kind.
    """
    node = as_expr(e)
    if not node.free_symbols | node.free_atoms:
        return node
    inner = rebuild(node, tuple(map(simplify, node.args))) if _is_leaf(node) else node
    if inner.kind is not SymKind.INT or _is_leaf(inner):
        return inner
    import sympy

    leaves: dict[str, Expr] = {}
    try:
        simplified = from_sympy(sympy.simplify(ToSympy(leaves, _opaque).convert(inner)), leaves=leaves)
    except (ExpressionError, ArithmeticError, ValueError, TypeError, NotImplementedError):
        return inner  # sympy failed, or its result has no equivalent here
    return simplified if simplified.kind is node.kind and _agree(node, simplified) else inner


def _is_leaf(e: Expr) -> bool:
    """Returns whether sympy must not see into `e`: it rounds, which sympy treats as exact, or it chooses."""
    return e.kind is not SymKind.INT or e.op in _OPAQUE


def _opaque(e: Expr) -> Expr | None:
    """Returns an opaque node with simplified operands; None for nodes that sympy may simplify."""
    if not _is_leaf(e) or not e.args:
        return None
    return rebuild(e, tuple(map(simplify, e.args)))


def _agree(e: Expr, other: Expr) -> bool:
    """Compares two expressions on sample points.

    Only points at which `e` is defined count, because sympy assumes nonzero denominators.
    """
    names = sorted(e.free_symbols | other.free_symbols)
    rng = random.Random(0)  # the same points every time
    for _ in range(_SAMPLES):
        env = {name: rng.randint(-9, 40) for name in names}
        numbers: dict[Expr, Number] = {}

        def atom(node: Expr, numbers: dict[Expr, Number] = numbers) -> Number:
            return numbers.setdefault(node, rng.randint(0, 40))

        try:
            expected = evaluate(e, env, atom)
        except ExpressionError:
            continue
        try:
            if evaluate(other, env, atom) != expected:
                return False
        except ExpressionError:
            return False
    return True
