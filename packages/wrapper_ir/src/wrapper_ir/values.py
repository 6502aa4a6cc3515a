"""Values: what ops define and use."""

from __future__ import annotations

from wrapper_ir.types import Type

__all__ = ["Value"]


class Value:
    """An immutable SSA value: a name, unique in its function (constants: in the program), and a type.

    Ops hold values, never names. Two values are equal when name and type are.
    """

    __slots__ = ("_hash", "name", "type")

    name: str
    type: Type

    def __init__(self, name: str, type: Type) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "_hash", hash(name))

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"Value is immutable; cannot set {key!r}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # type(self), not the global: weak tables compare until the interpreter ends
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.name == other.name and self.type == other.type

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]  # set through object.__setattr__

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Value, (self.name, self.type))
