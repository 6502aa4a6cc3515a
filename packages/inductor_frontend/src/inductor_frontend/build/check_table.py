"""The model's own checks, found by what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from inductor_frontend.checks import ModelCheck
from inductor_frontend.convert import to_expr
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import And, Bool, Cmp, CmpOp, Expr, SymKind, add, expand, sub

__all__ = ["CheckTable", "Key", "key_of"]

Key = object
"""Equal for conditions that say the same about ints: `3 < u0` and `u0 >= 4`."""


class CheckTable:
    """The model's own checks, found by what they say."""

    def __init__(self, checks: Sequence[ModelCheck] = ()) -> None:
        self._checks: Mapping[Key, tuple[Expr, ModelCheck]] = MappingProxyType(_table(checks))

    def find(self, condition: Expr) -> tuple[Expr, ModelCheck] | None:
        """The check that says what `condition` says, with its own form of it; None where the model has none."""
        return self._checks.get(key_of(condition))


def _table(checks: Sequence[ModelCheck]) -> dict[Key, tuple[Expr, ModelCheck]]:
    table: dict[Key, tuple[Expr, ModelCheck]] = {}
    for check in checks:
        try:
            condition = to_expr(check.condition)
        except ExpressionError:
            continue  # whoever needs it reports it
        for part in condition.args if isinstance(condition, And) else (condition,):
            known = table.get(key_of(part))
            if known is None or (check.message and not known[1].message):
                table[key_of(part)] = (part, check)
    return table


def key_of(condition: Expr) -> Key:
    """The key of a condition."""
    match condition:
        case And(args):
            return frozenset(map(key_of, args))
        case Cmp(op, lhs, rhs) if SymKind.FLOAT not in (lhs.kind, rhs.kind):
            return _intkey_of(op, lhs, rhs)
        case Cmp(CmpOp.GT | CmpOp.GE as op, lhs, rhs):
            return Cmp(CmpOp.LT if op is CmpOp.GT else CmpOp.LE, rhs, lhs)
        case _:
            return condition


def _intkey_of(op: CmpOp, lhs: Expr, rhs: Expr) -> Key:
    match op:
        case CmpOp.GE:
            return "nonneg", _terms(sub(lhs, rhs))
        case CmpOp.GT:
            return "nonneg", _terms(add(sub(lhs, rhs), -1))
        case CmpOp.LE | CmpOp.LT:
            return _intkey_of(CmpOp.GE if op is CmpOp.LE else CmpOp.GT, rhs, lhs)
        case CmpOp.EQ | CmpOp.NE:
            return op, frozenset((_terms(sub(lhs, rhs)), _terms(sub(rhs, lhs))))


def _terms(e: Expr) -> Key:
    return frozenset(expand(e).terms.items())
