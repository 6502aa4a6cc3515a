"""Expression nodes. Constructors never simplify.

Captured assertions and the text parser rely on that; other code uses the smart constructors of `build` and
`logic`. The row of an operator defines its meaning for parser, printers, evaluation, intervals, JSON and
sympy. `build` and `text` set Python's operators and the text form on `Expr`, because they are layers above
this module.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NoReturn, Self, TypeVar, cast
from weakref import WeakValueDictionary

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.interval import EVERYTHING, Interval
from wrapper_ir.expr.spelling import Spelling

Number = int | float | bool

MANY = 0
"""The arity of operators with two or more operands."""


class SymKind(enum.StrEnum):
    """Kind of the number that an expression evaluates to."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


class Floats(enum.Enum):
    """Validity of an operator's interval function for floats; an unbounded float may be NaN."""

    NEVER = enum.auto()
    BOUNDED = enum.auto()
    """If all float operands are bounded on both sides."""
    ALWAYS = enum.auto()


# The one table of live nodes. It is a cache, not state: it references nodes weakly. A lost entry, or two
# threads that create the same node at once, cost only speed, because equality falls back to structure.
_TABLE: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_Binary = Callable[["Expr", "ExprLike"], "Expr"]
_EMPTY: frozenset[str] = frozenset()
_set = object.__setattr__


def _sides(name: str) -> tuple[_Binary, _Binary]:
    """Returns the methods of an operator with the node on the left and on the right."""
    return (
        lambda self, other: Expr.arithmetic[name](self, other),
        lambda self, other: Expr.arithmetic[name](other, self),
    )


class Expr:
    """An immutable, interned expression node. Create nodes with the smart constructors of `wrapper_ir.expr`.

    Structurally equal nodes are usually one object, so `is` decides most comparisons. `==` compares nodes and
    never builds a comparison, as `eq(a, b)` does. Python's operators accept another node or a number, and
    simplify.
    """

    __slots__ = ("__weakref__", "_atoms", "_free", "_hash", "_key", "_kind", "_order")
    __match_args__: tuple[str, ...] = ()

    arithmetic: ClassVar[Mapping[str, Callable[[ExprLike, ExprLike], Expr]]]
    """The simplifying functions behind Python's operators; set by `build`."""
    text_form: ClassVar[Callable[[Expr], str]]
    """The text of a node; set by `text`."""

    op: Operator | None = None
    """The operator; None for a constant, a symbol and an atom."""
    args: tuple[Expr, ...] = ()
    """Operands, left to right."""
    integer: int | None = None
    """Value of an integer constant; None for every other node."""
    symbol: str | None = None
    """Name of a symbol; None for every other node."""

    _key: tuple[object, ...]
    _atoms: frozenset[Atom] | None
    _hash: int
    _kind: SymKind | None
    _free: frozenset[str] | None
    _order: tuple[int, str, int] | None

    @property
    def kind(self) -> SymKind:
        """Kind of the node's value."""
        raise NotImplementedError

    @property
    def constant(self) -> int | float | bool | None:
        """Value of a constant; None for every other node."""
        return None

    @property
    def free_symbols(self) -> frozenset[str]:
        """Names of all symbols in the expression, computed once."""
        free = self._free
        if free is None:
            free = _union(child.free_symbols for child in self.args)
            _set(self, "_free", free)
        return free

    @property
    def free_atoms(self) -> frozenset[Atom]:
        """All atoms in the expression, computed once."""
        atoms = self._atoms
        if atoms is None:
            atoms = frozenset().union(*(child.free_atoms for child in self.args))
            _set(self, "_atoms", atoms)
        return atoms

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; cannot delete {name!r}")

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def __reduce__(self) -> tuple[type[Expr], tuple[object, ...]]:
        return type(self), tuple([getattr(self, name) for name in self.__match_args__])  # by slot name

    def __str__(self) -> str:
        return Expr.text_form(self)

    def __repr__(self) -> str:
        fields = ", ".join(repr(getattr(self, name)) for name in self.__match_args__)  # by slot name
        return f"{type(self).__name__}({fields})"

    __add__, __radd__ = _sides("add")
    __sub__, __rsub__ = _sides("sub")
    __mul__, __rmul__ = _sides("mul")
    __floordiv__, __rfloordiv__ = _sides("floordiv")
    __mod__, __rmod__ = _sides("mod")

    def __neg__(self) -> Expr:
        return self * -1


class Atom(Expr):
    """A run-time property of a value, such as a size.

    The classes are in `wrapper_ir.ir.atoms`, because they refer to values, whose types contain expressions.
    """

    __slots__ = ()
    bounds: ClassVar[Interval] = EVERYTHING
    """Interval of all possible results."""

    @property
    def free_atoms(self) -> frozenset[Atom]:
        return frozenset((self,))

    @property
    def text(self) -> str:
        """Text form of the atom."""
        raise NotImplementedError


ExprLike = Expr | int | float
"""An operand of smart constructors: a node, or a Python bool, int or float."""

_E = TypeVar("_E", bound=Expr)


def intern(cls: type[_E], key: tuple[object, ...], fields: tuple[object, ...]) -> _E:
    """Returns the node of `cls` with `fields`; `key` is its identity, with the class or operator first."""
    existing = _TABLE.get(key)
    if existing is not None:
        return cast(_E, existing)  # no two classes share a key
    node = object.__new__(cls)
    for name, field in zip(cls.__match_args__, fields, strict=True):
        _set(node, name, field)
    _set(node, "_key", key)
    _set(node, "_hash", hash(key))
    _set(node, "_kind", None)
    _set(node, "_atoms", None)
    _set(node, "_free", None)
    _set(node, "_order", None)
    return cast(_E, _TABLE.setdefault(key, node))  # no two classes share a key


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Returns the union, and reuses an operand if possible: most nodes have the symbols of one child."""
    result = _EMPTY
    for names in sets:
        if not result:
            result = names
        elif not names <= result:
            result = result | names
    return result


_SAME = Spelling("")


def _everything(*operands: Interval) -> Interval:
    return EVERYTHING


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Operator:
    """One operator. Rows compare by identity; only those of `OPERATORS` can be pickled."""

    name: str
    """Tag in JSON, and name of the function if the text form is a call."""
    doc: str
    """Meaning and text form."""
    result: Callable[[tuple[SymKind, ...]], SymKind]
    """Maps the kinds of the operands to the kind of the result."""
    evaluate: Callable[..., Number]
    """Computes the value of Python numbers. A lazy operator receives a function from an operand's index to
    its value, and the number of operands. May raise ArithmeticError, ValueError or ExpressionError WIR402."""
    arity: int = 2
    lazy: bool = False
    text: Spelling = _SAME
    """Default: a call of the operator's name."""
    python: Spelling = _SAME
    """Default: `text`."""
    cpp: Spelling = _SAME
    """Default: `python`."""
    cpp_of_ints: Spelling = _SAME
    """C++ text without float operands. Default: `cpp`."""
    bounds: Callable[..., Interval] = _everything
    """Maps intervals of the operands to an interval that contains the result."""
    floats: Floats = Floats.NEVER
    sympy: tuple[str, ...] = ()
    """Names of the equivalent sympy functions; `to_sympy` writes the first."""
    order: str = ""
    """Start of the text that sorts factors. Default: the sympy name, or else the operator's name."""

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
        """Returns the node without simplification."""
        return Apply(self, args)

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Operators:
    """An immutable set of operators, indexed for the parser and the JSON decoder."""

    __slots__ = ("by_name", "calls", "infix", "rows")

    def __init__(self, rows: Iterable[Operator]) -> None:
        self.rows: tuple[Operator, ...] = tuple(rows)
        self.by_name: Mapping[str, Operator] = MappingProxyType({row.name: row for row in self.rows})
        signs = ((row.text.infix, row) for row in self.rows)
        self.infix: Mapping[str, Operator] = MappingProxyType({sign: row for sign, row in signs if sign})
        """Rows by the sign between the operands."""
        calls = {row.name: row for row in self.rows if row.text.template.startswith(f"{row.name}(")}
        self.calls: Mapping[str, Operator] = MappingProxyType(calls)
        """Rows by the name of the function in the text form."""

    def with_rows(self, *rows: Operator) -> Operators:
        """Returns these operators with more rows."""
        return Operators((*self.rows, *rows))


class Apply(Expr):
    """An operator applied to operands, not simplified. Text: `a + b`, `min(a, b)`, `not a`."""

    __slots__ = ("args", "op")
    __match_args__: ClassVar[tuple[str, ...]] = ("op", "args")
    op: Operator
    args: tuple[Expr, ...]

    def __new__(cls, op: Operator, args: tuple[Expr, ...]) -> Self:
        if len(args) != op.arity and (op.arity or len(args) < 2):
            arity = f"{op.arity} operands" if op.arity else "two or more operands"
            raise ExpressionError("WIR401", f"{op.name} takes {arity}, got {len(args)}")
        return intern(cls, (op, args), (op, args))

    @property
    def kind(self) -> SymKind:
        kind = self._kind
        if kind is None:
            kind = self.op.result(tuple([arg.kind for arg in self.args]))
            _set(self, "_kind", kind)
        return kind
