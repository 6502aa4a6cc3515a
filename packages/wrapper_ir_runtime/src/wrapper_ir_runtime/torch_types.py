"""Types of torch that this package uses. It does not depend on torch: the caller passes the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeAlias

TorchModule: TypeAlias = Any
"""The module `torch`. Any: most of what is used of it is private and has no type."""


class TorchStorage(Protocol):
    """Methods of `torch.UntypedStorage`."""

    @property
    def _cdata(self) -> int:
        """Address of the C++ object, unique among live storages."""

    def nbytes(self) -> int:
        """Returns the size in bytes."""

    def data_ptr(self) -> int:
        """Returns the address of the first byte."""


class TorchTensor(Protocol):
    """Methods of `torch.Tensor`."""

    @property
    def dtype(self) -> object:
        """The element type."""

    @property
    def device(self) -> object:
        """The device; its text is `cpu` or `cuda:0`."""

    @property
    def layout(self) -> object:
        """`torch.strided`, or a sparse layout."""

    @property
    def is_nested(self) -> bool:
        """True for a nested tensor, whose sizes cannot be queried."""

    @property
    def is_quantized(self) -> bool:
        """True if elements are quantized."""

    @property
    def real(self) -> Self:
        """The real parts, as a view."""

    def untyped_storage(self) -> TorchStorage:
        """Returns the storage."""

    def size(self) -> Sequence[int]:
        """Returns sizes in elements."""

    def stride(self) -> Sequence[int]:
        """Returns strides in elements."""

    def storage_offset(self) -> Any:  # Any: an int; torch declares SymInt as well
        """Returns the offset of the first element in the storage, in elements."""

    def element_size(self) -> int:
        """Returns the size of an element in bytes."""

    def numel(self) -> int:
        """Returns the number of elements."""

    def is_complex(self) -> bool:
        """Returns whether elements are complex numbers."""

    def is_conj(self) -> bool:
        """Returns whether elements are conjugated when read."""

    def is_neg(self) -> bool:
        """Returns whether elements are negated when read."""

    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int, /) -> Self:
        """Returns a view of the storage with this layout."""

    def view(self, dtype: Any, /) -> Self:  # Any: torch's own dtype
        """Returns a view of the same bytes with elements of another type."""

    def copy_(self, other: Self, /) -> object:
        """Copies elements."""

    def set_(self, source: Any, /) -> object:  # Any: torch declares storages only
        """Replaces storage and layout by those of `source`."""

    def as_strided_(self, size: Sequence[int], stride: Sequence[int], storage_offset: int, /) -> object:
        """Changes the layout in place."""
