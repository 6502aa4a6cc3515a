"""Nodes without operands: constants and symbols. Atoms, which refer to values, are in
`wrapper_ir.ir.atoms`."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from typing import Self

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import MAX_BITS
from wrapper_ir.expr.base import Expr, SymKind, intern
from wrapper_ir.expr.operators import OPERATORS

_SMALL_LIMIT = 4096
_SMALL_INTS: dict[int, Int] = {}  # keeps common constants alive; bounded by _SMALL_LIMIT


class Constant(Expr):
    """Base of constants."""

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
    integer: int

    def __new__(cls, value: int) -> Int:  # not Self: the cache contains Int, which has no subclass
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
    symbol: str

    def __new__(cls, name: str, kind: SymKind = SymKind.INT) -> Self:
        if not name.isidentifier() or name in RESERVED_NAMES:
            hint = "use an identifier that is neither a keyword nor a function"
            raise ExpressionError("WIR401", f"{name!r} cannot name a symbol", hint=hint)
        return intern(cls, (cls, name, kind), (name, kind))

    @property
    def free_symbols(self) -> frozenset[str]:
        return frozenset((self.name,))


Int.integer = Int.value  # type: ignore[misc]  # one slot, two names
Sym.symbol = Sym.name  # type: ignore[misc]  # one slot, two names
CONSTANTS: Mapping[str, Expr] = {
    "true": Bool(True),
    "false": Bool(False),
    "inf": Float(math.inf),
    "nan": Float(math.nan),
}
"""Constants with a name in text."""
ATOM_WORDS = ("size", "stride", "offset", "item")
"""Names of atoms in text; `wrapper_ir.ir.atoms` has a class for each."""
RESERVED_NAMES = frozenset((*ATOM_WORDS, *CONSTANTS, *OPERATORS.calls, *keyword.kwlist))
"""Names that a symbol cannot have, because they mean something else in text."""
