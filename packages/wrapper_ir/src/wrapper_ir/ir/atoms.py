"""Atoms: leaves of expressions that read a value at run time, and their text form.

Values have types and types have expressions, so the classes of atoms are defined above both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

from wrapper_ir.expr import (
    OPERATORS,
    Apply,
    Atom,
    Bool,
    Expr,
    ExprParser,
    Float,
    Int,
    Interval,
    Operators,
    Sym,
    SymKind,
    intern,
    map_atoms,
)
from wrapper_ir.ir.types import DType, ScalarType, TensorType
from wrapper_ir.ir.values import Value
from wrapper_ir.support.quoting import value_name
from wrapper_ir.support.tokens import Source, kind_of

_NONNEGATIVE = Interval(0, None)
_REMAINDER = re.compile(r"(?<=[\w)])(\s+)%(?=\w)")
"""`a %b` after an operand is a remainder, not a value."""


class ValueAtom(Atom):
    """A property of a value that an expression reads; `word` is its name in the text form."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    word: ClassVar[str]
    value: Value

    def __new__(cls, value: Value) -> Self:
        return intern(cls, (cls, value), (value,))

    @property
    def text(self) -> str:
        return f"{self.word}(%{value_name(self.value.name)})"


class DimAtom(ValueAtom):
    """A property of one dimension of a tensor."""

    __slots__ = ("dim",)
    __match_args__ = ("value", "dim")
    kind = SymKind.INT
    bounds = _NONNEGATIVE
    dim: int

    def __new__(cls, value: Value, dim: int) -> Self:
        return intern(cls, (cls, value, dim), (value, dim))

    @property
    def text(self) -> str:
        return f"{self.word}(%{value_name(self.value.name)}, {self.dim})"


class SizeOf(DimAtom):
    """A tensor's size in one dimension, in elements, read when the program runs. Text: `size(%x, 0)`."""

    __slots__ = ()
    word = "size"


class StrideOf(DimAtom):
    """A tensor's stride in one dimension, in elements. Text: `stride(%x, 0)`."""

    __slots__ = ()
    word = "stride"


class OffsetOf(ValueAtom):
    """A tensor's offset in its storage, in elements. Text: `offset(%x)`."""

    __slots__ = ()
    kind = SymKind.INT
    bounds = _NONNEGATIVE
    word = "offset"


class Item(ValueAtom):
    """The only element of a tensor, or a scalar value, on the host. Text: `item(%x)`."""

    __slots__ = ()
    word = "item"

    @property
    def kind(self) -> SymKind:
        match self.value.type:
            case ScalarType(kind):
                return kind
            case TensorType(DType.BOOL):
                return SymKind.BOOL
            case TensorType(dtype) if dtype.is_floating:
                return SymKind.FLOAT
            case _:
                return SymKind.INT


DIM_ATOMS: Mapping[str, type[DimAtom]] = {cls.word: cls for cls in (SizeOf, StrideOf)}
VALUE_ATOMS: Mapping[str, type[ValueAtom]] = {cls.word: cls for cls in (OffsetOf, Item)}

Node = Int | Float | Bool | Sym | SizeOf | StrideOf | OffsetOf | Item | Apply
"""The closed union of nodes; tables over nodes are tested against it."""

NODE_TYPES: tuple[type[Expr], ...] = (Int, Float, Bool, Sym, SizeOf, StrideOf, OffsetOf, Item, Apply)
"""The members of `Node`, in its order."""


# --- the values of expressions


def free_values(expr: Expr) -> frozenset[Value]:
    """All values that atoms of the expression read."""
    return frozenset(atom.value for atom in expr.free_atoms if isinstance(atom, ValueAtom))


def _by_name(value: Value) -> str:
    return value.name


def values_in(content: object, out: list[Value]) -> list[Value]:
    """Appends the values in a field to `out`: a value itself, values read by an expression (sorted by name),
    and both in nested tuples."""
    if type(content) is Value:
        out.append(content)
    elif type(content) is tuple:
        for item in content:
            values_in(item, out)
    elif isinstance(content, Expr) and content.free_atoms:
        out += sorted(free_values(content), key=_by_name)
    return out


def item_values(expr: Expr) -> tuple[Value, ...]:
    """Values whose elements are read (by `item`), sorted by name."""
    return tuple(sorted({atom.value for atom in expr.free_atoms if isinstance(atom, Item)}, key=_by_name))


def map_expr_values(expr: Expr, use: Callable[[Value], Value]) -> Expr:
    """The expression with its values replaced, without simplification."""

    def moved(atom: Expr) -> Expr:
        match atom:
            case DimAtom(value, dim):
                return type(atom)(use(value), dim)
            case ValueAtom(value):
                return type(atom)(use(value))
            case _:
                return atom

    return map_atoms(expr, moved, simplify=False)


# --- text


def parse_expr(
    text: str,
    symbol_kinds: Mapping[str, SymKind] | None = None,
    values: Mapping[str, Value] | None = None,
    operators: Operators = OPERATORS,
) -> Expr:
    """Parses an expression node by node, without simplification.

    `symbol_kinds` declares the symbols and `values` the values (by name, without `%`) that may occur.
    Raises ParseError WIR550 (syntax), WIR551 (symbol), WIR552 (value), WIR553 (nested too deep).
    """
    text = _REMAINDER.sub(r"%\1", text.replace("\n", " "))
    parser = AtomParser(Source(text), operators)
    # a mapping of another class may have keys that it does not list
    parser.kinds = symbol_kinds if isinstance(symbol_kinds, dict) else dict(symbol_kinds or {})
    parser.values |= values or {}
    parser.skip_lines()
    e = parser.expression()
    parser.skip_lines()
    if parser.tokens[parser.at] != "":
        parser.fail("WIR550", f"expected the end of the expression, found {parser.shown()}")
    return e


class AtomParser(ExprParser):
    """Reads expressions over the declared symbols and the values in scope."""

    def __init__(self, source: Source, operators: Operators = OPERATORS) -> None:
        super().__init__(source, operators)
        self.values: dict[str, Value] = {}

    def value(self) -> Value:
        """Parses a value in scope; any other name is WIR552."""
        token = self.tokens[self.at]
        entry = self.values.get(token[1:]) if token[:1] == "%" else None
        if entry is not None:
            self.at += 1
            return entry
        start = self.at
        entry = self.values.get(self.sigil("%", "a value such as %x"))
        if entry is None:
            self.fail("WIR552", f"value {token} is not defined here", start)
        return entry

    def atom(self, word: str) -> Expr | None:
        """See `ExprParser`."""
        if word in VALUE_ATOMS:
            return VALUE_ATOMS[word](self._atom_value())
        if word not in DIM_ATOMS:
            return None
        value = self._atom_value()
        self.expect(",", "WIR550")
        dim = self.tokens[self.at]
        if kind_of(dim) != "NUMBER" or not dim.isdecimal():
            self.unexpected("a dimension number", "WIR550")
        self.at += 1
        return DIM_ATOMS[word](value, int(dim))

    def _atom_value(self) -> Value:
        if kind_of(self.tokens[self.at]) != "VALUE":
            self.unexpected("a value such as %x", "WIR550")
        return self.value()
