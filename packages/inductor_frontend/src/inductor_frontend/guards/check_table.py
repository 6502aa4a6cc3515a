"""Table of the model's assertions, looked up by their condition."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from inductor_frontend.convert import to_expr
from inductor_frontend.guards.checks import ModelCheck
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Apply, Expr, Operator, Sym, SymKind, add, expand, sub, substitute, to_float
from wrapper_ir.expr import operators as ops

Key = object
"""Equal for equivalent conditions on ints: `3 < u0` and `u0 >= 4`."""

_UNBACKED = re.compile(r"(u|zuf)\d+")
_ANY = "any"
"""Placeholder for the only unbacked symbol of a condition."""


class CheckTable:
    """The model's assertions, in their original form."""

    def __init__(self, checks: Sequence[ModelCheck] = ()) -> None:
        self._exact: dict[Key, tuple[Expr, ModelCheck]] = {}
        self._renamed: dict[Key, list[tuple[str, Expr, ModelCheck]]] = {}
        self.spoken: list[ModelCheck] = [check for check in checks if check.message]
        """The assertions with a message."""
        for condition, check in _parts(checks):
            for key in _implied(condition):
                existing = self._exact.get(key)
                if existing is None or (check.message and not existing[1].message):
                    self._exact[key] = (condition, check)
            name = _only_unbacked(condition)
            if name is not None:
                for key in _implied(_renamed(condition, name, _ANY)):
                    self._renamed.setdefault(key, []).append((name, condition, check))

    def find(self, condition: Expr, defined: Container[str]) -> tuple[Expr, ModelCheck] | None:
        """Returns the assertion that is equivalent to `condition` or implies it; None if the model has none.

        Inductor may rename an unbacked symbol after the model has checked it. If exactly one assertion
        matches up to the name of a symbol that is not `defined`, that assertion is returned.
        """
        exact = self._exact.get(key_of(condition))
        name = _only_unbacked(condition)
        if exact is not None or name is None:
            return exact
        candidates = {
            (old, check.message): (old, part, check)
            for old, part, check in self._renamed.get(key_of(_renamed(condition, name, _ANY)), ())
            if old not in defined
        }
        if len(candidates) != 1:
            return None
        ((old, part, check),) = candidates.values()
        return _renamed(part, old, name), check


def _parts(checks: Sequence[ModelCheck]) -> Iterator[tuple[Expr, ModelCheck]]:
    for check in checks:
        try:
            condition = to_expr(check.condition)
        except ExpressionError:
            continue  # reported when the condition itself is converted
        for part in condition.args if condition.op is ops.AND else (condition,):
            yield part, check


def _only_unbacked(condition: Expr) -> str | None:
    names = [name for name in condition.free_symbols if _UNBACKED.fullmatch(name)]
    return names[0] if len(names) == 1 else None


def _renamed(e: Expr, old: str, new: str) -> Expr:
    kind = SymKind.FLOAT if old.startswith("zuf") else SymKind.INT
    return substitute(e, {old: Sym(new, kind)}, simplify=False)


def _implied(condition: Expr) -> list[Key]:
    """Returns the keys of a condition, and of the conditions on a symbol's range that Inductor derives from
    it."""
    keys = [key_of(condition)]
    match condition:
        case Apply(ops.EQ, (lhs, rhs)) if SymKind.FLOAT not in (lhs.kind, rhs.kind):
            keys += [_int_key(ops.GE, lhs, rhs), _int_key(ops.LE, lhs, rhs)]
        case _:
            pass
    return keys


def key_of(condition: Expr) -> Key:
    """Returns the key of a condition."""
    match condition:
        case Apply(ops.AND, args):
            return frozenset(map(key_of, args))
        case Apply(op, (lhs, rhs)) if op in ops.COMPARISONS and SymKind.FLOAT not in (lhs.kind, rhs.kind):
            return _int_key(op, lhs, rhs)
        case Apply(ops.GT | ops.GE as op, (lhs, rhs)):
            return key_of((ops.LT if op is ops.GT else ops.LE)(rhs, lhs))
        case Apply(op, (lhs, rhs)) if op in ops.COMPARISONS:
            return op(to_float(lhs), to_float(rhs))
        case _:
            return condition


def _int_key(op: Operator, lhs: Expr, rhs: Expr) -> Key:
    match op:
        case ops.GE:
            return "nonneg", _terms(sub(lhs, rhs))
        case ops.GT:
            return "nonneg", _terms(add(sub(lhs, rhs), -1))
        case ops.LE | ops.LT:
            return _int_key(ops.GE if op is ops.LE else ops.GT, rhs, lhs)
        case _:
            return op, frozenset((_terms(sub(lhs, rhs)), _terms(sub(rhs, lhs))))


def _terms(e: Expr) -> Key:
    return frozenset(expand(e).terms.items())
