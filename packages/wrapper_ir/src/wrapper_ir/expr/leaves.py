"""Nodes without operands: constants, symbols, and atoms that look at a value when the program runs."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.base import Expr, SymKind, intern
from wrapper_ir.expr.operators import OPERATORS

if TYPE_CHECKING:
    from wrapper_ir.values import Value

__all__ = [
    "CONSTANTS", "DIM_ATOMS", "RESERVED_NAMES", "VALUE_ATOMS",
    "Atom", "Bool", "DimAtom", "Float", "Int", "Item", "OffsetOf", "SizeOf", "StrideOf", "Sym", "ValueAtom",
]  # fmt: skip

_SMALL_LIMIT = 4096
_SMALL_INTS: dict[int, Int] = {}  # keeps the few common constants alive; bounded, so it cannot leak


class Constant(Expr):
    """A number."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: int | float | bool

    @property
    def constant(self) -> int | float | bool:
        return self.value


class Int(Constant):
    """An integer constant of at most 4096 bits (WIR408). Text: `-3`."""

    __slots__ = ()
    kind = SymKind.INT
    value: int

    def __new__(cls, value: int) -> Int:  # nothing subclasses it, and the cache holds Int
        small = _SMALL_INTS.get(value)
        if small is not None:
            return small
        value = int(value)
        if value.bit_length() > MAX_BITS:
            raise ExpressionError("WIR408", f"an int constant has more than {MAX_BITS} bits")
        node = intern(Int, (Int, value), (value,))
        if -_SMALL_LIMIT <= value <= _SMALL_LIMIT:
            _SMALL_INTS[value] = node
        return node


class Float(Constant):
    """A float64 constant; all NaNs are one node, `0.0` and `-0.0` are two. Text: `2.0`, `inf`, `nan`."""

    __slots__ = ()
    kind = SymKind.FLOAT
    value: float

    def __new__(cls, value: float) -> Self:
        value = float(value)
        return intern(cls, (cls, value.hex()), (value,))


class Bool(Constant):
    """A truth constant. Text: `true`, `false`."""

    __slots__ = ()
    kind = SymKind.BOOL
    value: bool

    def __new__(cls, value: bool) -> Self:
        value = bool(value)
        return intern(cls, (cls, value), (value,))


class Sym(Expr):
    """A symbol of the program. Its kind is part of its identity, not of its text. Text: `s0`."""

    __slots__ = ("kind", "name")
    __match_args__ = ("name", "kind")
    name: str
    kind: SymKind

    def __new__(cls, name: str, kind: SymKind = SymKind.INT) -> Self:
        if not name.isidentifier() or name in RESERVED_NAMES:
            hint = "use an identifier that is neither a keyword nor a function"
            raise ExpressionError("WIR401", f"{name!r} cannot name a symbol", hint=hint)
        return intern(cls, (cls, name, kind), (name, kind))

    @property
    def free_symbols(self) -> frozenset[str]:
        return frozenset((self.name,))


class Atom(Expr):
    """What an expression reads from a value when the program runs; `word` is its name in the text form."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    word: ClassVar[str]
    value: Value

    @property
    def free_values(self) -> frozenset[Value]:
        return frozenset((self.value,))


class DimAtom(Atom):
    """What it reads of one dimension of a tensor."""

    __slots__ = ("dim",)
    __match_args__ = ("value", "dim")
    kind = SymKind.INT
    dim: int

    def __new__(cls, value: Value, dim: int) -> Self:
        return intern(cls, (cls, value, dim), (value, dim))


class ValueAtom(Atom):
    """What it reads of a whole value."""

    __slots__ = ()

    def __new__(cls, value: Value) -> Self:
        return intern(cls, (cls, value), (value,))


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
    word = "offset"


class Item(ValueAtom):
    """The only element of a tensor, or a scalar value, on the host. Text: `item(%x)`."""

    __slots__ = ()
    word = "item"

    @property
    def kind(self) -> SymKind:
        # Imported here because types are made of expressions.
        from wrapper_ir.types import DType, ScalarType, TensorType

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
CONSTANTS: Mapping[str, Expr] = {
    "true": Bool(True),
    "false": Bool(False),
    "inf": Float(math.inf),
    "nan": Float(math.nan),
}
"""Constants that are written as words."""
RESERVED_NAMES = frozenset((*DIM_ATOMS, *VALUE_ATOMS, *CONSTANTS, *OPERATORS.calls, *keyword.kwlist))
"""Names that a symbol cannot have, because the text form gives them a meaning."""
