"""The layout of a compiled kernel's parameters: which argument of a launch each one is, and how it is passed."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from triton_runtime.binding import BoundArgument
from triton_runtime.errors import KernelError
from wrapper_ir.kernels import ParamKind
from wrapper_ir.types import DType

__all__ = ["Slot", "SlotKind", "make_slot"]

_DIVISOR = 16


class SlotKind(enum.IntEnum):
    """In the order of the launcher's `Kind`."""

    POINTER = 0
    SIGNED = 1
    UNSIGNED = 2
    F16 = 3
    BF16 = 4
    F32 = 5
    F64 = 6


_SCALARS = {
    DType.I64: (SlotKind.SIGNED, 64),
    DType.I32: (SlotKind.SIGNED, 32),
    DType.I16: (SlotKind.SIGNED, 16),
    DType.I8: (SlotKind.SIGNED, 8),
    DType.U64: (SlotKind.UNSIGNED, 64),
    DType.U32: (SlotKind.UNSIGNED, 32),
    DType.U16: (SlotKind.UNSIGNED, 16),
    DType.U8: (SlotKind.UNSIGNED, 8),
    DType.BOOL: (SlotKind.UNSIGNED, 1),
    DType.F64: (SlotKind.F64, 64),
    DType.F32: (SlotKind.F32, 32),
    DType.F16: (SlotKind.F16, 16),
    DType.BF16: (SlotKind.BF16, 16),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One parameter of the compiled kernel. `dtype`: of a tensor, as torch numbers it; -1 where that is not known."""

    position: int
    kind: SlotKind
    bits: int
    dtype: int
    divisible: bool

    def packed(self) -> tuple[int, int, int, int, bool]:
        """In the form of the launcher."""
        return self.position, int(self.kind), self.bits, self.dtype, self.divisible


def make_slot(kernel: str, argument: BoundArgument, number: Callable[[DType], int]) -> Slot:
    """The slot of an argument; `number` gives torch's numbers of dtypes.

    Raises KernelError: TR103 for a number of a type that cannot be passed by value, TR109 for a tensor descriptor.
    """
    if argument.kind is ParamKind.POINTER:
        kind, bits, dtype = SlotKind.POINTER, 64, number(argument.dtype)
    elif argument.kind is ParamKind.DESCRIPTOR:
        raise KernelError(
            "TR109",
            f"kernel '{kernel}': parameter '{argument.name}' is a tensor descriptor, which is not launched on CUDA yet",
            "make the descriptor inside the kernel (tl.make_tensor_descriptor), or pass a pointer",
        )
    elif argument.dtype in _SCALARS:
        (kind, bits), dtype = _SCALARS[argument.dtype], -1
    else:
        raise KernelError(
            "TR103",
            f"kernel '{kernel}': a number of {argument.dtype.value} ('{argument.name}') has no form in C",
        )
    divisible = argument.divisible and kind <= SlotKind.UNSIGNED
    return Slot(position=argument.position, kind=kind, bits=bits, dtype=dtype, divisible=divisible)
