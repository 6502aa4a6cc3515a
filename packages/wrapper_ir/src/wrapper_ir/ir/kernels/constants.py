"""Compile-time constants of kernels, and exact equality of the definitions that contain them."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from wrapper_ir.ir.types import DType

ScalarConstant = int | float | bool | str | DType | None
"""A number, a string, an element type (`tl.float32`), or None."""

ConstantValue = ScalarConstant | tuple[ScalarConstant, ...]
"""A value of a `tl.constexpr` parameter: a scalar constant, or a tuple of them."""

_SCALARS = (int, float, bool, str, DType, type(None))


def constant_fault(value: object) -> str | None:
    """Returns the class that keeps a value from being a `ConstantValue`, or None.

    Subclasses (of numpy, of enum) are refused because their text differs.
    """
    items = value if type(value) is tuple else (value,)
    return next((type(item).__name__ for item in items if type(item) not in _SCALARS), None)


class ExactConstants:
    """Exact equality for dataclasses with constants.

    1, 1.0 and True compile to different code, and so do 0.0 and -0.0.
    """

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
    """Returns a key of a field that distinguishes numbers by their class."""
    match value:
        case tuple():
            return tuple(map(_exact, value))
        case int() | float():
            return type(value), repr(value)
        case _:
            return value
