"""Values that a kernel's source is compiled with, and kernels that are equal only where these are the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from wrapper_ir.ir.types import DType

ScalarConstant = int | float | bool | str | DType | None
"""A number, a string, an element type (`tl.float32`), or None."""

ConstantValue = ScalarConstant | tuple[ScalarConstant, ...]
"""What a `tl.constexpr` parameter may be: one of these, or a tuple of them."""

_SCALARS = (int, float, bool, str, DType, type(None))


def constant_fault(value: object) -> str | None:
    """Why a value is not a `ConstantValue`; None where it is one. Subclasses (of numpy, of enum) have other texts."""
    items = value if type(value) is tuple else (value,)
    return next((type(item).__name__ for item in items if type(item) not in _SCALARS), None)


class ExactConstants:
    """Equality of dataclasses that hold constants: 1, 1.0 and True are compiled differently, and so are 0.0 and -0.0."""

    __slots__ = ()

    def _content(self) -> tuple[Hashable, ...]:
        return tuple(
            _exact(getattr(self, field.name))  # the fields of a dataclass
            for field in dataclasses.fields(self)  # type: ignore[arg-type]  # a base of dataclasses
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())


def _exact(value: Hashable) -> Hashable:
    """A field in which numbers of different classes differ."""
    if type(value) is tuple:
        return tuple(map(_exact, value))
    return (type(value), repr(value)) if isinstance(value, int | float) else value
