"""A deterministic order of nodes for sums and products, equal in every process."""

from __future__ import annotations

import enum
import re
from zlib import crc32

from wrapper_ir.expr.base import Expr
from wrapper_ir.expr.leaves import Sym
from wrapper_ir.expr.operators import MUL

_TEXT_LIMIT = 48
_DIGITS = re.compile(r"\d+")
_set = object.__setattr__


def factor_key(e: Expr) -> tuple[int, str, int]:
    """Returns the sort key of a factor: numbers, symbols in natural order (`s2` before `s10`), the rest."""
    key = e._order
    if key is None:
        key = _compute(e)
        _set(e, "_order", key)
    return key


def term_key(factors: tuple[Expr, ...]) -> tuple[int, tuple[tuple[int, str, int], ...]]:
    """Returns the sort key of a term by its factors without the coefficient: higher degrees come first."""
    return -len(factors), tuple(map(factor_key, factors))


def _compute(e: Expr) -> tuple[int, str, int]:
    op = e.op
    if op is not None:
        keys = [factor_key(arg) for arg in e.args]
        checksum = crc32(op.order.encode() + b"".join([key[2].to_bytes(4, "big") for key in keys]))
        if op is MUL:
            return 2, "*".join([key[1] for key in keys])[:_TEXT_LIMIT], checksum
        return 3, (op.order + ", ".join([key[1] for key in keys]) + ")")[:_TEXT_LIMIT], checksum
    name = type(e).__name__
    fields = [_leaf_text(field) for field in e._key[1:]]
    # The checksum separates long expressions with equal beginnings. hash() would differ between processes.
    checksum = crc32(name.encode() + "".join([f"{field};" for field in fields]).encode())
    if e.constant is not None:
        return 0, repr(e.constant)[:_TEXT_LIMIT], checksum
    if type(e) is Sym:
        return 1, _natural(e.name)[:_TEXT_LIMIT], checksum
    return 3, f"{name}({', '.join(map(_natural, fields))})"[:_TEXT_LIMIT], checksum


def _natural(text: str) -> str:
    return _DIGITS.sub(lambda digits: digits[0].zfill(8), text)


def _leaf_text(field: object) -> str:
    """Returns the text of a number, an enum member, or a value (its name)."""
    if isinstance(field, enum.Enum):
        return str(field.value)
    name = getattr(field, "name", None)  # a Value, whose module imports this one
    return name if isinstance(name, str) else repr(field)
