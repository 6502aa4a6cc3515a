"""Encodes torch's size expressions as JSON, and decodes them exactly, without evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import sympy
import torch.utils._sympy.functions as functions

from inductor_frontend.cache.operators import NoCanonicalForm
from wrapper_ir_runtime.cache import DamagedEntry

Size: TypeAlias = "int | sympy.Basic"
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_CORE = {
    c.__name__: c
    for c in (
        sympy.Add, sympy.Mul, sympy.Pow, sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge,
        sympy.And, sympy.Or, sympy.Not, sympy.Piecewise, sympy.Abs,
    )
}  # fmt: skip


def _torch_class(name: str) -> type[sympy.Basic] | None:
    """Returns one of torch's sympy functions, such as FloorDiv; None if `name` is none of them."""
    cls = getattr(functions, name, None)
    own = isinstance(cls, type) and issubclass(cls, sympy.Basic) and cls.__module__ == functions.__name__
    return cls if own else None


def encode_size(expr: Size) -> Json:
    """Encodes a size expression as JSON; raises NoCanonicalForm if decoding would not restore it exactly."""
    encoded = _write(expr)
    if isinstance(expr, sympy.Basic):
        symbols = {str(s): s for s in expr.free_symbols}
        if decode_size(encoded, symbols) != expr:
            raise NoCanonicalForm(f"size expression {expr}")
    return encoded


def _write(expr: object) -> Json:
    match expr:
        case bool() | int():
            return expr
        case sympy.Integer():
            return int(expr)
        case sympy.logic.boolalg.BooleanAtom():
            return bool(expr)
        case sympy.Symbol():
            return {"symbol": expr.name}
        case sympy.Rational():
            return {"ratio": [int(expr.p), int(expr.q)]}
        case sympy.Float():
            return {"float": float(expr).hex()}
        case _:
            pass
    name = type(expr).__name__
    if not isinstance(expr, sympy.Basic) or (_CORE.get(name) or _torch_class(name)) is not type(expr):
        raise NoCanonicalForm(f"size expression {expr}")
    return {"call": name, "args": [_write(a) for a in expr.args]}


def decode_size(data: Json, symbols: Mapping[str, sympy.Symbol]) -> sympy.Basic:
    """Decodes an expression; raises DamagedEntry if `data` is malformed."""
    match data:
        case bool():
            return sympy.true if data else sympy.false
        case int():
            return sympy.Integer(data)
        case {"symbol": str(name)} if name in symbols:
            return symbols[name]
        case {"ratio": [int(p), int(q)]} if q:
            return sympy.Rational(p, q)
        case {"float": str(text)}:
            return sympy.Float(float.fromhex(text))
        case {"call": str(name), "args": [*args]}:
            cls = _CORE.get(name) or _torch_class(name)
            if cls is not None:
                return cls(*(decode_size(a, symbols) for a in args))
        case _:
            pass
    raise DamagedEntry(f"not a size expression: {data!r}")
