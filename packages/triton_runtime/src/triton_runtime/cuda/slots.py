"""Maps the arguments of a launch to a compiled kernel's parameters, for the launcher."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from triton_runtime.errors import KernelError
from wrapper_ir import ir

_SCRATCH = (ir.DriverParamKind.SCRATCH, ir.DriverParamKind.PROFILE)
"""Parameters that the launcher appends to the slots."""
_MAX_RANK = 5


class SlotKind(enum.IntEnum):
    """Kinds of slots, in the order of the launcher's `Kind`."""

    POINTER = 0
    SIGNED = 1
    UNSIGNED = 2
    F16 = 3
    BF16 = 4
    F32 = 5
    F64 = 6
    DESCRIPTOR = 7


_SCALARS = {
    **{ir.DType(f"i{bits}"): (SlotKind.SIGNED, bits) for bits in (8, 16, 32, 64)},
    **{ir.DType(f"u{bits}"): (SlotKind.UNSIGNED, bits) for bits in (8, 16, 32, 64)},
    ir.DType.BOOL: (SlotKind.UNSIGNED, 1),
    ir.DType.F64: (SlotKind.F64, 64),
    ir.DType.F32: (SlotKind.F32, 32),
    ir.DType.F16: (SlotKind.F16, 16),
    ir.DType.BF16: (SlotKind.BF16, 16),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """The parameters of a tensor descriptor: a `map` (TMA), or address, sizes, strides and `flags` zeros.

    Sizes and strides follow both.
    """

    rank: int
    map: ir.TensorMap | None = None
    flags: int = 0

    def packed(self) -> tuple[object, ...]:
        """The descriptor in the launcher's form."""
        m = self.map or ir.TensorMap(box=(), element_type=0, element_size=0)
        about = (bool(self.map), self.flags, m.swizzle, m.element_size, m.element_type, m.padded)
        return self.rank, *about, m.box


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One argument of a launch that the compiled kernel uses. `dtype` is torch's number of a tensor's; -1 if
    unknown.
    """

    position: int
    kind: SlotKind
    bits: int
    dtype: int
    divisible: bool
    descriptor: Descriptor | None = None

    def packed(self) -> tuple[object, ...]:
        """The slot in the launcher's form."""
        described = self.descriptor and self.descriptor.packed()
        return self.position, int(self.kind), self.bits, self.dtype, self.divisible, described


def make_slots(params: Sequence[ir.DriverParam], count: int, number: Callable[[ir.DType], int]) -> list[Slot]:
    """The slots of a compiled kernel's parameters, one for each argument; a launch has `count` arguments.

    `number` returns torch's number of a dtype. Raises KernelError TR109 for parameters that the launcher does
    not fill in this order.
    """
    kinds = tuple(param.kind for param in params[-len(_SCRATCH) :])
    arguments = params[: -len(_SCRATCH)]
    if kinds != _SCRATCH or not all(0 <= param.position < count for param in arguments):
        raise _unknown(params)
    groups = [tuple(group) for _, group in groupby(arguments, lambda param: param.position)]
    return [_slot(group, number) for group in groups]


def _slot(group: tuple[ir.DriverParam, ...], number: Callable[[ir.DType], int]) -> Slot:
    first, descriptor = group[0], None
    match first.kind:
        case ir.DriverParamKind.NUMBER if len(group) == 1:
            kind, bits = _SCALARS[first.dtype]
            dtype = -1
        case ir.DriverParamKind.POINTER if len(group) == 1:
            kind, bits, dtype = SlotKind.POINTER, 64, number(first.dtype)
        case ir.DriverParamKind.POINTER | ir.DriverParamKind.TENSOR_MAP:
            kind, bits, dtype = SlotKind.DESCRIPTOR, 64, number(first.dtype)
            descriptor = _descriptor(group)
        case _:
            raise _unknown(group)
    divisible = first.divisible > 1
    return Slot(
        position=first.position, kind=kind, bits=bits, dtype=dtype, divisible=divisible, descriptor=descriptor
    )


_SIZE, _STRIDE, _ZERO = ir.DriverParamKind.SIZE, ir.DriverParamKind.STRIDE, ir.DriverParamKind.ZERO


def _descriptor(group: tuple[ir.DriverParam, ...]) -> Descriptor:
    """The descriptor of a group of parameters; raises KernelError TR109 for any other form."""
    first, rest = group[0], [(param.kind, param.dim) for param in group[1:]]
    rank, flags = 1 + max((dim for _, dim in rest), default=0), rest.count((_ZERO, 0))
    layout = [(kind, dim) for kind in (_SIZE, _STRIDE) for dim in range(rank)]
    described = layout if first.map is not None else [*layout, *[(_ZERO, 0)] * flags, *layout]
    boxed = first.map is None or len(first.map.box) == rank
    if rest != described or rank > _MAX_RANK or not boxed:
        raise _unknown(group)
    return Descriptor(rank=rank, map=first.map, flags=flags)


def _unknown(params: Sequence[ir.DriverParam]) -> KernelError:
    parameter_list = ", ".join(f"{param.kind.value} {param.dtype.value}" for param in params)
    return KernelError(
        "TR109", f"a compiled kernel takes ({parameter_list}), which this version does not pass"
    )
