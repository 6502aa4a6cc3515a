"""The layout of a compiled kernel's parameters: which argument of a launch each one is, and how it is passed."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from triton_runtime.binding import BoundArgument
from triton_runtime.errors import KernelError
from triton_runtime.protocols import Launchable
from wrapper_ir.kernels import ParamKind
from wrapper_ir.types import DType

__all__ = ["Descriptor", "Slot", "SlotKind", "make_slot", "make_slots"]

_SCRATCH = 2
"""Parameters behind the arguments: pointers to scratch memory and to memory of profilers."""
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
"""The device numbers element types as the host does, but for these: host's number by device's."""


class SlotKind(enum.IntEnum):
    """In the order of the launcher's `Kind`."""

    POINTER = 0
    SIGNED = 1
    UNSIGNED = 2
    F16 = 3
    BF16 = 4
    F32 = 5
    F64 = 6
    DESCRIPTOR = 7


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
class Descriptor:
    """How a tensor descriptor is passed. With a `box` (sizes in elements of what is copied at a time), as a map for the
    device's copy engine, of which Triton says `swizzle`, `element_size` in bytes and the driver's `element_type`;
    without one, as address, sizes, strides and `flags` numbers that are 0. Sizes and strides stand behind both."""

    rank: int
    box: tuple[int, ...] = ()
    swizzle: int = 0
    element_size: int = 0
    element_type: int = 0
    padded: bool = False
    flags: int = 0

    @property
    def params(self) -> int:
        """How many parameters of the compiled kernel this is."""
        return 1 + 2 * self.rank if self.box else 1 + 4 * self.rank + self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One parameter of the compiled kernel. `dtype`: of a tensor, as torch numbers it; -1 where that is not known."""

    position: int
    kind: SlotKind
    bits: int
    dtype: int
    divisible: bool
    descriptor: Descriptor | None = None

    @property
    def params(self) -> int:
        """How many parameters of the compiled kernel this is."""
        return 1 if self.descriptor is None else self.descriptor.params

    def packed(self) -> tuple[object, ...]:
        """In the form of the launcher."""
        d = self.descriptor
        described = d and (
            *(d.rank, bool(d.box), d.flags, d.swizzle, d.element_size, d.element_type, d.padded),
            d.box,
        )
        return self.position, int(self.kind), self.bits, self.dtype, self.divisible, described


def make_slots(launchable: Launchable, number: Callable[[DType], int]) -> list[Slot]:
    """The slots of a kernel's arguments; `number` gives torch's numbers of dtypes.

    Raises KernelError: TR103 for a number of a type that cannot be passed by value, TR109 where the compiled kernel takes
    other parameters than those that Triton is known to make of these arguments.
    """
    binary = launchable.binary
    assert binary is not None, "a kernel to launch is compiled"
    maps = json.loads(binary.facts.descriptors) if binary.facts.descriptors else []
    slots = [make_slot(launchable.kernel.name, a, number) for a in launchable.binding.arguments]
    described = [i for i, slot in enumerate(slots) if slot.descriptor is not None]
    for i, facts in zip(described, maps):
        slots[i] = replace(slots[i], descriptor=_with_map(slots[i], facts))
    taken = binary.assembly.split(".entry", 1)[-1].split("{", 1)[0].count(".param")
    if taken == 0:  # nothing to compare with
        return slots
    missing = taken - sum(slot.params for slot in slots) - _SCRATCH
    if described and not maps and missing in (len(described), 2 * len(described)):
        # Versions of Triton differ in how many flags stand behind a descriptor's strides.
        flags = missing // len(described)
        return [
            s if s.descriptor is None else replace(s, descriptor=replace(s.descriptor, flags=flags))
            for s in slots
        ]
    if missing != 0:
        raise KernelError(
            "TR109",
            f"kernel '{launchable.kernel.name}' takes {taken} parameters, where {taken - missing} would be passed",
            f"Triton {binary.facts.compiler} compiles launches in a way that this version does not know",
        )
    return slots


def _with_map(slot: Slot, facts: dict[str, Any]) -> Descriptor:  # Any: of JSON
    assert slot.descriptor is not None
    kind = facts["elem_type"]
    return replace(
        slot.descriptor,
        box=tuple(facts["block_size"]),
        swizzle=facts["swizzle"],
        element_size=facts["elem_size"],
        element_type=_ELEMENT_TYPES.get(kind, kind),
        padded=bool(facts.get("fp4_padded")),
    )


def make_slot(kernel: str, argument: BoundArgument, number: Callable[[DType], int]) -> Slot:
    """The slot of an argument, as far as the argument alone says. Raises KernelError TR103."""
    descriptor = None
    if argument.kind is ParamKind.POINTER:
        kind, bits, dtype = SlotKind.POINTER, 64, number(argument.dtype)
    elif argument.kind is ParamKind.DESCRIPTOR:
        kind, bits, dtype = SlotKind.DESCRIPTOR, 64, number(argument.dtype)
        descriptor = Descriptor(rank=len(argument.block))
    elif argument.dtype in _SCALARS:
        (kind, bits), dtype = _SCALARS[argument.dtype], -1
    else:
        raise KernelError(
            "TR103",
            f"kernel '{kernel}': a number of {argument.dtype.value} ('{argument.name}') has no form in C",
        )
    return Slot(
        position=argument.position,
        kind=kind,
        bits=bits,
        dtype=dtype,
        divisible=argument.divisible and kind <= SlotKind.UNSIGNED,
        descriptor=descriptor,
    )
