"""Expressions and call arguments as JSON.

An expression is an integer, a truth value, the name of a symbol, `{"float": 1.5}` (or `"nan"`, `"inf"`, `"-inf"`), or
a list of a tag and its operands: `["add", "s0", 1]`, `["<", "s0", 8]`, `["size", "x", 0]`. An argument is an
expression, null, or an object of one key: `{"value": "x"}`, `{"list": [...]}`, `{"str": "sum"}`, `{"dtype": "f32"}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, assert_never

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import (
    OPERATORS,
    Atom,
    Bool,
    Expr,
    Float,
    Int,
    Item,
    OffsetOf,
    Operators,
    SizeOf,
    StrideOf,
    Sym,
    SymKind,
)  # fmt: skip
from wrapper_ir.expr.text import NAMED_ATOMS
from wrapper_ir.json_form.devices import decode_device, encode_device
from wrapper_ir.json_form.reading import MAX_DEPTH, Json, each, fault, integer, member, members_of, string
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.types import Device, DType, Layout, MemoryFormat
from wrapper_ir.values import Value

_Node = TypeVar("_Node", bound=Expr)

__all__ = ["ARG_KEYS", "ArgDecoder", "encode_arg", "encode_expr", "encode_number"]

_VALUE_ATOMS: dict[str, type[OffsetOf] | type[Item]] = {"offset": OffsetOf, "item": Item}
_DIM_ATOMS: dict[str, type[SizeOf] | type[StrideOf]] = {"size": SizeOf, "stride": StrideOf}


def encode_number(x: int | float | bool | None) -> Json:
    """A number that keeps its kind."""
    if not isinstance(x, float):
        return x
    return {"float": x if math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"}


def encode_expr(e: Expr) -> Json:
    """The JSON of an expression."""
    if e.op is not None:
        return [e.op.name, *map(encode_expr, e.args)]
    match e:
        case Int(value) | Bool(value) | Float(value):
            return encode_number(value)
        case Sym(name):
            return name
        case SizeOf(value, dim) | StrideOf(value, dim):
            return [NAMED_ATOMS[type(e)], value.name, dim]
        case Atom(value):
            return [NAMED_ATOMS[type(e)], value.name]
        case _:
            raise AssertionError(type(e).__name__)  # the tests compare these cases with the union of nodes


ARG_KEYS = ("value", "list", "str", "dtype", "device", "memory_format", "layout", "complex", "float")
"""Keys of the objects that stand for arguments; the last one is an expression."""


def encode_arg(arg: Arg) -> Json:
    """The JSON of a call's argument."""
    match arg:
        case Value():
            return {"value": arg.name}
        case Expr():
            return encode_expr(arg)
        case Complex():
            return {"complex": [encode_expr(arg.real), encode_expr(arg.imag)]}
        case tuple():
            return {"list": [encode_arg(item) for item in arg]}
        case None:
            return None
        case str():
            return {"str": arg}
        case DType():
            return {"dtype": arg.value}
        case Device():
            return {"device": encode_device(arg)}
        case MemoryFormat():
            return {"memory_format": arg.value}
        case Layout():
            return {"layout": arg.value}
        case _:
            assert_never(arg)


class ArgDecoder:
    """Reads expressions and arguments over the declared symbols and the values in scope."""

    def __init__(self, operators: Operators = OPERATORS) -> None:
        self._operators = operators
        self.kinds: dict[str, SymKind] = {}
        self.values: dict[str, Value] = {}
        self._depth = 0
        self._constants: dict[str, Callable[[Json], Arg]] = {
            "str": string,
            "dtype": member(members_of(DType), "element type"),
            "device": decode_device,
            "memory_format": member(members_of(MemoryFormat), "memory format"),
            "layout": member(members_of(Layout), "layout"),
            "complex": self._complex,
            "value": self.use,
        }

    def use(self, x: Json) -> Value:
        """The value of this name; WIR552 where it is not defined."""
        found = self.values.get(x) if isinstance(x, str) else None
        return found if found is not None else fault(f"value {string(x)!r} is not defined here", "WIR552")

    def expr(self, x: Json) -> Expr:
        """An expression."""
        if type(x) is int:
            return self._made(lambda: Int(x))
        if isinstance(x, bool):
            return Bool(x)
        if isinstance(x, str):
            return self._symbol(x)
        if isinstance(x, dict):
            return self._float(x)
        if not isinstance(x, list) or not x:
            fault("expected an expression")
        self._enter()
        e = self._node(string(x[0]), x[1:])
        self._depth -= 1
        return e

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            fault(f"nests deeper than {MAX_DEPTH}", "WIR553")

    def _symbol(self, name: str) -> Sym:
        kind = self.kinds.get(name)
        if kind is None:
            fault(f"symbol {name!r} is not declared", "WIR551")
        return self._made(lambda: Sym(name, kind), "WIR551")

    def _made(self, make: Callable[[], _Node], code: str = "WIR521") -> _Node:
        try:
            return make()
        except ExpressionError as error:
            fault(error.message, code)

    def _float(self, x: dict[str, Json]) -> Float:
        number = x.get("float")
        if len(x) != 1 or number is None or isinstance(number, bool):
            fault('expected an expression; a float is {"float": 1.5}')
        if isinstance(number, float | int):
            return Float(_finite(number))
        if number not in ("nan", "inf", "-inf"):
            fault('expected a number, "nan", "inf" or "-inf"')
        return Float(float(string(number)))

    def _complex(self, x: Json) -> Complex:
        parts = [self.expr(part) for part in x] if isinstance(x, list) else []
        match parts:
            case [Float() as real, Float() as imag]:
                return Complex(real, imag)
            case _:
                return fault("a complex number has two floats")

    def _node(self, tag: str, fields: list[Json]) -> Expr:
        if tag in _DIM_ATOMS and len(fields) == 2:
            dim = integer(fields[1])
            return _DIM_ATOMS[tag](self.use(fields[0]), dim) if dim >= 0 else fault("a dimension is negative")
        if tag in _VALUE_ATOMS and len(fields) == 1:
            return _VALUE_ATOMS[tag](self.use(fields[0]))
        op = self._operators.by_name.get(tag)
        if op is None:
            fault(f"unknown expression {tag[:40]!r} of {len(fields)} operands", "WIR522")
        if len(fields) != op.arity and (op.arity or len(fields) < 2):
            fault(f"{tag} takes {op.arity or 'two or more'} operands, found {len(fields)}")
        return op(*[self.expr(f) for f in fields])

    def arg(self, x: Json) -> Arg:
        """One argument."""
        if x is None:
            return None
        if not isinstance(x, dict) or "float" in x:
            return self.expr(x)
        if len(x) != 1:
            fault("an argument is an object of one key")
        ((key, inner),) = x.items()
        if key == "list":
            self._enter()
            items = each(inner, self.arg)
            self._depth -= 1
            return items
        read = self._constants.get(key)
        return read(inner) if read else fault(f"unknown argument {key[:40]!r}", "WIR522")


def _finite(number: float | int) -> float:
    try:
        x = float(number)
    except OverflowError:
        x = math.inf
    return x if math.isfinite(x) else fault("this number does not fit a float")
