"""The base class of expression nodes: interning, cached facts and operators."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from wrapper_ir.expr.operator_row import Operator
    from wrapper_ir.values import Value

__all__ = ["Expr", "ExprLike", "SymKind", "intern"]


class SymKind(enum.StrEnum):
    """What an expression evaluates to."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


# The one table of live nodes. It is a cache, not state: it holds nodes weakly, and losing an entry (or
# two threads making the same node at once) costs speed only, because equality falls back to structure.
_TABLE: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_Binary = Callable[["Expr", "ExprLike"], "Expr"]
_EMPTY: frozenset[str] = frozenset()
_set = object.__setattr__


@cache
def _constructor(name: str) -> Callable[[ExprLike, ExprLike], Expr]:
    from wrapper_ir.expr import build  # which needs this module

    found: Callable[[ExprLike, ExprLike], Expr] = getattr(build, name)  # the names are those below
    return found


def _sides(name: str) -> tuple[_Binary, _Binary]:
    """The methods of an operator with the node on the left, and on the right."""
    return (
        lambda self, other: _constructor(name)(self, other),
        lambda self, other: _constructor(name)(other, self),
    )


class Expr:
    """An immutable, interned expression node. Make nodes with the smart constructors of `wrapper_ir.expr`.

    Two structurally equal nodes are one object, so `is` is almost always enough; `==` never builds a
    comparison node (that is `eq(a, b)`). Operators take another node or a Python number and simplify.
    """

    __slots__ = ("__weakref__", "_free", "_hash", "_key", "_kind", "_order", "_values")
    __match_args__: tuple[str, ...] = ()

    op: Operator | None = None
    """The operator; None for a constant, a symbol and an atom."""
    args: tuple[Expr, ...] = ()
    """Operands, left to right."""

    _key: tuple[object, ...]
    _hash: int
    _kind: SymKind | None
    _free: frozenset[str] | None
    _values: frozenset[Value] | None
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
    def free_values(self) -> frozenset[Value]:
        """All values that atoms of the expression look at."""
        values = self._values
        if values is None:
            values = frozenset().union(*(child.free_values for child in self.args))
            _set(self, "_values", values)
        return values

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
        from wrapper_ir.expr.text import print_expr

        return print_expr(self)

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
    _set(node, "_free", None)
    _set(node, "_values", None)
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
