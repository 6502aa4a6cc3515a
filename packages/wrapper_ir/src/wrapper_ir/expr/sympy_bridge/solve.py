"""Equations in one unknown."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, ExprLike
from wrapper_ir.expr.build import as_expr, floordiv, sub
from wrapper_ir.expr.leaves import Sym
from wrapper_ir.expr.normal import Monomial, Poly, expand
from wrapper_ir.expr.sympy_bridge.reader import from_sympy
from wrapper_ir.expr.sympy_bridge.writer import to_sympy
from wrapper_ir.expr.text import print_expr


def solve(lhs: ExprLike, rhs: ExprLike, unknown: str | Collection[str]) -> Expr:
    """Returns the value, rounded down, of the only unknown in `lhs == rhs`.

    `unknown` names the symbols without a value; exactly one of them may occur. The rounded value may not
    satisfy the equation for all values of the other symbols: check `lhs == rhs` at run time. Raises
    ExpressionError WIR407 for no or several unknowns, and if the solution is not unique.
    """
    candidates = {unknown} if isinstance(unknown, str) else set(unknown)
    a, b = as_expr(lhs), as_expr(rhs)
    unknowns = sorted(candidates & (a.free_symbols | b.free_symbols))
    equation = f"{print_expr(a)} == {print_expr(b)}"
    if len(unknowns) != 1:
        names = " and ".join(unknowns) if unknowns else "nothing"
        hint = "define all symbols but one first"
        raise ExpressionError("WIR407", f"{equation} cannot be solved for {names}", hint=hint)
    solution = _solve_linear(expand(sub(a, b)), unknowns[0])
    return _solve_by_sympy(a, b, unknowns[0], equation) if solution is None else solution


def _solve_linear(difference: Poly, name: str) -> Expr | None:
    """Returns the solution of `slope*x + rest == 0`; None if the equation is not linear in the unknown."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, scale in difference.terms.items():
        inside = [factor for factor in monomial if name in factor.free_symbols]
        if not inside:
            rest[monomial] = -scale
        elif inside == [Sym(name)]:
            others = list(monomial)
            others.remove(inside[0])
            slope[tuple(others)] = scale
        else:
            return None
    if not slope:
        return None
    if all(scale < 0 for scale in slope.values()):
        slope = {monomial: -scale for monomial, scale in slope.items()}
        rest = {monomial: -scale for monomial, scale in rest.items()}
    return floordiv(Poly(rest).to_expr(), Poly(slope).to_expr())


def _solve_by_sympy(a: Expr, b: Expr, name: str, equation: str) -> Expr:
    import sympy

    leaves: dict[str, Expr] = {}
    try:
        equal = to_sympy(a, leaves) - to_sympy(b, leaves)
        # Sizes are positive, which rules out the other root of a square.
        size = partial(sympy.Symbol, integer=True, positive=True)
        equal = equal.subs({s: size(s.name) for s in equal.free_symbols if s.is_integer})
        solutions = sympy.solve(equal, size(name))
        if len(solutions) == 1:
            return from_sympy(sympy.floor(solutions[0]), leaves=leaves)
        reason = f"{len(solutions)} solutions"
    except (NotImplementedError, ArithmeticError, ValueError, TypeError) as error:
        reason = str(error)
    raise ExpressionError("WIR407", f"{equation} has no single solution for {name} ({reason})")
