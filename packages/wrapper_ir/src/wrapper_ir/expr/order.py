"""A deterministic total order of nodes, the same in every process, for sums and products."""

from __future__ import annotations

import enum
import re
from zlib import crc32

from wrapper_ir.expr.base import Expr
from wrapper_ir.expr.nodes import Bool, Float, Int, Mul, Sym

__all__ = ["factor_key", "term_key"]

_TEXT_LIMIT = 48
_DIGITS = re.compile(r"\d+")
_set = object.__setattr__


def factor_key(e: Expr) -> tuple[int, str, int]:
    """Sort key of a factor: numbers, symbols in natural order (`s2` before `s10`), then the rest."""
    key = e._order
    if key is None:
        key = _compute(e)
        _set(e, "_order", key)
    return key


def term_key(factors: tuple[Expr, ...]) -> tuple[int, tuple[tuple[int, str, int], ...]]:
    """Sort key of a term given its factors other than the coefficient: higher degrees come first."""
    return -len(factors), tuple(map(factor_key, factors))


def _compute(e: Expr) -> tuple[int, str, int]:
    match e:
        case Int(value) | Float(value) | Bool(value):
            rank, text = 0, repr(value)
        case Sym(name):
            rank, text = 1, _natural(name)
        case Mul(args):
            rank, text = 2, "*".join(factor_key(arg)[1] for arg in args)
        case _:
            rank, text = 3, f"{type(e).__name__}({', '.join(map(_field_text, e._key[1:]))})"
    # The checksum separates long expressions that start alike; not hash(), which differs between processes.
    data = b"".join(map(_field_bytes, e._key[1:]))
    return rank, text[:_TEXT_LIMIT], crc32(type(e).__name__.encode() + data)


def _natural(text: str) -> str:
    return _DIGITS.sub(lambda digits: digits[0].zfill(8), text)


def _field_text(field: object) -> str:
    if isinstance(field, Expr):
        return factor_key(field)[1]
    if isinstance(field, tuple):
        return ", ".join(_field_text(item) for item in field)
    return _natural(_leaf_text(field))


def _field_bytes(field: object) -> bytes:
    if isinstance(field, Expr):
        return factor_key(field)[2].to_bytes(4, "big")
    if isinstance(field, tuple):
        return b"(" + b"".join(_field_bytes(item) for item in field) + b")"
    return _leaf_text(field).encode() + b";"


def _leaf_text(field: object) -> str:
    """Text of a field that is no expression: a number, an enum member, or a value (by its name)."""
    if isinstance(field, enum.Enum):
        return str(field.value)
    name = getattr(field, "name", None)  # a Value; its module is not imported here because it needs this one
    return name if isinstance(name, str) else repr(field)
