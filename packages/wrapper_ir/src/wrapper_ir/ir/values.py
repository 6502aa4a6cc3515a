"""SSA values, which ops define and use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeGuard

from wrapper_ir.errors import BuildError
from wrapper_ir.ir.types import Device, ScalarType, StorageType, TensorType, TupleType, Type

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # known to type checkers even if the package is not installed

    T_co = TypeVar("T_co", bound=Type, covariant=True, default=Type)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class Value(Generic[T_co]):
    """An immutable SSA value: a name, unique in its function (constants: in the program), and a type.

    Ops refer to values, never to names. Values with equal names and types are equal. `Value[TensorType]` is a
    tensor; `Value` may have any type.
    """

    __slots__ = ("_hash", "name", "type")

    name: str
    type: T_co

    def __init__(self, name: str, type: T_co) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "_hash", hash(name))

    def __setattr__(self, key: str, value: object) -> None:
        raise AttributeError(f"Value is immutable; cannot set {key!r}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # type(self): the global may be gone when weak tables compare at interpreter exit
        if not isinstance(other, type(self)):
            return NotImplemented
        return self.name == other.name and self.type == other.type

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]  # set through object.__setattr__

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Value, (self.name, self.type))


def is_tensor(x: object) -> TypeGuard[Value[TensorType]]:
    """Returns whether `x` is a tensor value."""
    return isinstance(x, Value) and isinstance(x.type, TensorType)


def is_scalar(x: object) -> TypeGuard[Value[ScalarType]]:
    """Returns whether `x` is a scalar value."""
    return isinstance(x, Value) and isinstance(x.type, ScalarType)


def is_storage(x: object) -> TypeGuard[Value[StorageType]]:
    """Returns whether `x` is a storage value."""
    return isinstance(x, Value) and isinstance(x.type, StorageType)


def is_results(x: object) -> TypeGuard[Value[TupleType]]:
    """Returns whether `x` is the nested result of an operator."""
    return isinstance(x, Value) and isinstance(x.type, TupleType)


def device_of(value: Value) -> Device | None:
    """The device of a tensor or a storage; None for other values."""
    return value.type.device


def as_tensor(x: object) -> Value[TensorType]:
    """`x` as a tensor value; raises BuildError WIR308 for anything else."""
    if is_tensor(x):
        return x
    what = f"%{x.name}" if isinstance(x, Value) else repr(x)
    raise BuildError("WIR308", f"{what} stands where a tensor is needed")
