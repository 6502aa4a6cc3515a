"""Expression nodes. Constructors never simplify: they build exactly what they are given.

Captured assertions and the text parser rely on that; everybody else uses the functions of `build` and `logic`. What an
operator means stands in its row, which parser, printers, evaluation, intervals, JSON and sympy read. What Python's operators
make of nodes, and their text, is set on `Expr` by the modules that know: `build` and `text`.
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
"""The arity of operators of two or more operands."""


class SymKind(enum.StrEnum):
    """What an expression evaluates to."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


class Floats(enum.Enum):
    """Whether an operator's interval function holds for floats; an unbounded one may be NaN."""

    NEVER = enum.auto()
    BOUNDED = enum.auto()
    """While all operands of kind float are bounded on both sides."""
    ALWAYS = enum.auto()


# The one table of live nodes. It is a cache, not state: it holds nodes weakly, and losing an entry (or
# two threads making the same node at once) costs speed only, because equality falls back to structure.
_TABLE: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_Binary = Callable[["Expr", "ExprLike"], "Expr"]
_EMPTY: frozenset[str] = frozenset()
_set = object.__setattr__


def _sides(name: str) -> tuple[_Binary, _Binary]:
    """The methods of an operator with the node on the left, and on the right."""
    return (
        lambda self, other: Expr.arithmetic[name](self, other),
        lambda self, other: Expr.arithmetic[name](other, self),
    )


class Expr:
    """An immutable, interned expression node. Make nodes with the smart constructors of `wrapper_ir.expr`.

    Two structurally equal nodes are one object, so `is` is almost always enough; `==` never builds a
    comparison node (that is `eq(a, b)`). Operators take another node or a Python number and simplify.
    """

    __slots__ = ("__weakref__", "_atoms", "_free", "_hash", "_key", "_kind", "_order")
    __match_args__: tuple[str, ...] = ()

    arithmetic: ClassVar[Mapping[str, Callable[[ExprLike, ExprLike], Expr]]]
    """What Python's operators make, which are normal forms: `build` sets it."""
    text_form: ClassVar[Callable[[Expr], str]]
    """The text of a node: `text` sets it."""

    op: Operator | None = None
    """The operator; None for a constant, a symbol and an atom."""
    args: tuple[Expr, ...] = ()
    """Operands, left to right."""

    _key: tuple[object, ...]
    _atoms: frozenset[Atom] | None
    _hash: int
    _kind: SymKind | None
    _free: frozenset[str] | None
    _order: tuple[int, str, int] | None

    @property
    def kind(self) -> SymKind:
        """What the node evaluates to."""
        raise NotImplementedError

    @property
    def constant(self) -> int | float | bool | None:
        """The number that a constant is; None for every other node."""
        return None

    @property
    def free_symbols(self) -> frozenset[str]:
        """Names of all symbols in the expression."""
        free = self._free
        if free is None:
            free = _union(child.free_symbols for child in self.args)
            _set(self, "_free", free)
        return free

    @property
    def free_atoms(self) -> frozenset[Atom]:
        """All atoms in the expression."""
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
    """What an expression reads from a value when the program runs. `wrapper_ir.ir.atoms` has the classes, above the types of
    values, which have expressions."""

    __slots__ = ()
    bounds: ClassVar[Interval] = EVERYTHING
    """What it lies in, whatever it reads."""

    @property
    def free_atoms(self) -> frozenset[Atom]:
        return frozenset((self,))

    @property
    def text(self) -> str:
        """Its text form."""
        raise NotImplementedError


ExprLike = Expr | int | float
"""What smart constructors accept: a node or a Python bool, int or float."""

_E = TypeVar("_E", bound=Expr)


def intern(cls: type[_E], key: tuple[object, ...], fields: tuple[object, ...]) -> _E:
    """The node of `cls` with `fields`; `key` identifies it (class or operator first, everything hashable)."""
    found = _TABLE.get(key)
    if found is not None:
        return cast(_E, found)  # no two classes share a key
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
    """Union that reuses an operand where it can; most nodes have the symbols of one child."""
    result = _EMPTY
    for names in sets:
        if not result:
            result = names
        elif not names <= result:
            result = result | names
    return result


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

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


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
            _set(self, "_kind", kind)
        return kind
