"""What an operator of expressions is: one row that parser, printers, evaluation, intervals, JSON and sympy read."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Self

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.base import Expr, SymKind, intern
from wrapper_ir.expr.interval import EVERYTHING, Interval

__all__ = [
    "MANY",
    "Apply",
    "Coercion",
    "Floats",
    "Level",
    "Number",
    "Operator",
    "Operators",
    "Slot",
    "Spelling",
]

Number = int | float | bool

MANY = 0
"""The arity of operators of two or more operands."""


class Level(enum.IntEnum):
    """How tightly a text holds together."""

    TERNARY = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    POWER = 8
    ATOM = 9


class Coercion(enum.Enum):
    """What an operand is converted to where the target has conversions of its own."""

    NONE = ""
    OWN = "own"
    """The kind of the result."""
    COMMON = "common"
    """The widest kind among the operands."""
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


class Floats(enum.Enum):
    """Whether an operator's interval function holds for floats; an unbounded one may be NaN."""

    NEVER = enum.auto()
    BOUNDED = enum.auto()
    """While all operands of kind float are bounded on both sides."""
    ALWAYS = enum.auto()


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand's place in a spelling; index -1 stands for all operands, separated by commas."""

    index: int
    level: Level
    coercion: Coercion


_SLOT = re.compile(r"\{(\d|\*)(?::([a-z ]+))?\}")
_INFIX = re.compile(r"\{0[^}]*\}\s*([^\s{]+)\s*\{1[^}]*\}")
_WORDS: Mapping[str, Level] = {level.name.lower(): level for level in Level}
_COERCIONS: Mapping[str, Coercion] = {coercion.value: coercion for coercion in Coercion}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a target writes an operator: `{0:product}//{1:sign}` writes each operand at least as tight as the level.

    A word before the level converts the operand (see `Coercion`). `{*}` are all operands with commas between them; an
    operator of many operands whose spelling has two of them is written pair by pair, from the left.
    """

    template: str
    level: Level = Level.ATOM
    """How tightly the whole holds together."""
    slots: tuple[tuple[str, Slot], ...] = field(init=False, repr=False)
    """The operands' places, each with the text before it."""
    tail: str = field(init=False, repr=False)
    """The text after the last of them."""
    takes_all: bool = field(init=False, repr=False)
    """Whether it has a place for all operands."""

    def __post_init__(self) -> None:
        slots: list[tuple[str, Slot]] = []
        end = 0
        for match in _SLOT.finditer(self.template):
            words = (match[2] or "ternary").split()
            coercion = next((_COERCIONS[word] for word in words if word in _COERCIONS), Coercion.NONE)
            level = next((_WORDS[word] for word in words if word in _WORDS), Level.TERNARY)
            slot = Slot(-1 if match[1] == "*" else int(match[1]), level, coercion)
            slots.append((self.template[end : match.start()], slot))
            end = match.end()
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "tail", self.template[end:])
        object.__setattr__(self, "takes_all", "{*}" in self.template)

    @property
    def infix(self) -> str | None:
        """The sign between two operands, if that is what the spelling is."""
        found = _INFIX.fullmatch(self.template)
        return found[1] if found else None

    @property
    def between(self) -> str:
        """The text between the operands of an infix spelling, with its spaces."""
        return self.slots[1][0]


_SAME = Spelling("")


def _nowhere(*operands: Interval) -> Interval:
    return EVERYTHING


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Operator:
    """One operator. Rows are compared by identity; only those of `OPERATORS` can be pickled."""

    name: str
    """The tag in JSON, and the function's name where the text form is a call."""
    doc: str
    """What it means, and its text form."""
    result: Callable[[tuple[SymKind, ...]], SymKind]
    """The kind of the result by those of the operands."""
    evaluate: Callable[..., Number]
    """The value for Python numbers; a lazy operator gets a function from an operand's index to its value, and the number
    of operands. May raise ArithmeticError, ValueError or ExpressionError WIR402."""
    arity: int = 2
    lazy: bool = False
    text: Spelling = _SAME
    """As a call of its name, if it is not given."""
    python: Spelling = _SAME
    """As `text`, if it is not given."""
    cpp: Spelling = _SAME
    """As `python`, if it is not given."""
    cpp_of_ints: Spelling = _SAME
    """The C++ text where no operand is a float, if it differs."""
    bounds: Callable[..., Interval] = _nowhere
    """An interval that holds the result for operands in these intervals."""
    floats: Floats = Floats.NEVER
    sympy: tuple[str, ...] = ()
    """Names of the sympy functions that mean this; the first is the one written."""
    order: str = ""
    """How its text starts where factors are sorted; by default as sympy's, or with its own name."""

    def __post_init__(self) -> None:
        self._default("text", _SAME, Spelling(f"{self.name}({{*}})"))
        self._default("python", _SAME, self.text)
        self._default("cpp", _SAME, self.python)
        self._default("cpp_of_ints", _SAME, self.cpp)
        self._default("order", "", f"{(*self.sympy, self.name)[0]}(")

    def _default(self, field: str, missing: object, value: object) -> None:
        if getattr(self, field) == missing:  # a field, by its name
            object.__setattr__(self, field, value)

    def __call__(self, *args: Expr) -> Apply:
        """The node, exactly as given."""
        return Apply(self, args)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        return _operator_named, (self.name,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _operator_named(name: str) -> Operator:
    from wrapper_ir.expr.operators import OPERATORS

    return OPERATORS.by_name[name]


class Operators:
    """An immutable set of operators, by what the parser and the JSON decoder meet."""

    __slots__ = ("by_name", "calls", "infix", "rows")

    def __init__(self, rows: Iterable[Operator]) -> None:
        self.rows: tuple[Operator, ...] = tuple(rows)
        self.by_name: Mapping[str, Operator] = MappingProxyType({row.name: row for row in self.rows})
        signs = ((row.text.infix, row) for row in self.rows)
        self.infix: Mapping[str, Operator] = MappingProxyType({sign: row for sign, row in signs if sign})
        """By the sign between the operands."""
        named = {row.name: row for row in self.rows if row.text.template.startswith(f"{row.name}(")}
        self.calls: Mapping[str, Operator] = MappingProxyType(named)
        """By the function's name in the text form."""

    def with_rows(self, *rows: Operator) -> Operators:
        """These operators and more."""
        return Operators((*self.rows, *rows))


class Apply(Expr):
    """An operator applied to operands, exactly as given. Text: `a + b`, `min(a, b)`, `not a`."""

    __slots__ = ("args", "op")
    __match_args__: ClassVar[tuple[str, ...]] = ("op", "args")
    op: Operator
    args: tuple[Expr, ...]

    def __new__(cls, op: Operator, args: tuple[Expr, ...]) -> Self:
        if len(args) != op.arity and (op.arity or len(args) < 2):
            wanted = f"{op.arity} operands" if op.arity else "two or more operands"
            raise ExpressionError("WIR401", f"{op.name} takes {wanted}, got {len(args)}")
        return intern(cls, (op, args), (op, args))

    @property
    def kind(self) -> SymKind:
        kind = self._kind
        if kind is None:
            kind = self.op.result(tuple([arg.kind for arg in self.args]))
            object.__setattr__(self, "_kind", kind)
        return kind
