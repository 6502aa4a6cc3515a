"""The parameters of a compiled kernel: the one place that knows what Triton makes of a function's arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triton_runtime.binding import Binding, BoundArgument
from triton_runtime.errors import KernelError
from triton_runtime.protocols import Binary
from wrapper_ir.ir.kernels import DriverParam, DriverParamKind, ParamKind, TensorMap
from wrapper_ir.ir.types import DType

_DIVISIBLE = 16
_SCRATCH: Final = (
    DriverParam(kind=DriverParamKind.SCRATCH, dtype=DType.U8),
    DriverParam(kind=DriverParamKind.PROFILE, dtype=DType.U8),
)
"""Appended to the arguments of every kernel."""
_BY_VALUE = frozenset(
    {DType.I64, DType.I32, DType.I16, DType.I8, DType.U64, DType.U32, DType.U16, DType.U8, DType.BOOL}
    | {DType.F64, DType.F32, DType.F16, DType.BF16}
)


def driver_params(kernel: str, binding: Binding, binary: Binary) -> tuple[DriverParam, ...]:
    """What the driver takes for the arguments of a launch, descriptors expanded, and pointers to scratch memory.

    Raises KernelError: TR103 for a number of a type that cannot be passed by value, TR109 where the compiled kernel takes
    other parameters than those that Triton is known to make of these arguments.
    """
    described = [a for a in binding.arguments if a.kind is ParamKind.DESCRIPTOR]
    maps = dict(zip([a.position for a in described], binary.maps))
    found = _expanded(kernel, binding, maps, 0)
    taken = binary.assembly.split(".entry", 1)[-1].split("{", 1)[0].count(".param")
    if taken == 0:  # nothing to compare with
        return found
    missing = taken - len(found)
    if described and not maps and missing in (len(described), 2 * len(described)):
        # Versions of Triton differ in how many flags follow a descriptor's strides.
        return _expanded(kernel, binding, maps, missing // len(described))
    if missing != 0:
        raise KernelError(
            "TR109",
            f"kernel '{kernel}' takes {taken} parameters, where {len(found)} would be passed",
            f"Triton {binary.compiler} compiles launches in a way that this version does not know",
        )
    return found


def _expanded(
    kernel: str, binding: Binding, maps: dict[int, TensorMap], flags: int
) -> tuple[DriverParam, ...]:
    params: list[DriverParam] = []
    for argument in binding.arguments:
        if argument.kind is ParamKind.DESCRIPTOR:
            params += _descriptor(argument, maps.get(argument.position), flags)
        else:
            params.append(_plain(kernel, argument))
    return (*params, *_SCRATCH)


def _plain(kernel: str, argument: BoundArgument) -> DriverParam:
    pointer = argument.kind is ParamKind.POINTER
    if not pointer and argument.dtype not in _BY_VALUE:
        raise KernelError(
            "TR103",
            f"kernel '{kernel}': a number of {argument.dtype.value} ('{argument.name}') has no form in C",
        )
    relied_on = argument.divisible and (pointer or not argument.dtype.is_floating)
    return DriverParam(
        kind=DriverParamKind.POINTER if pointer else DriverParamKind.NUMBER,
        dtype=argument.dtype,
        position=argument.position,
        divisible=_DIVISIBLE if relied_on else 1,
    )


def _descriptor(argument: BoundArgument, map: TensorMap | None, flags: int) -> Iterator[DriverParam]:
    """A map; or address, sizes, strides, and `flags` numbers that are 0 (padding with zeros, no rounding). Sizes and
    strides follow in both cases."""
    at, rank = argument.position, len(argument.block)
    if map is not None:
        yield DriverParam(kind=DriverParamKind.TENSOR_MAP, dtype=argument.dtype, position=at, map=map)
    else:
        yield DriverParam(kind=DriverParamKind.POINTER, dtype=argument.dtype, position=at)
        yield from _layout(at, rank, DType.I64)
        for _ in range(flags):
            yield DriverParam(kind=DriverParamKind.ZERO, dtype=DType.BOOL, position=at)
    yield from _layout(at, rank, DType.I32)


def _layout(position: int, rank: int, sizes: DType) -> Iterator[DriverParam]:
    for dim in range(rank):
        yield DriverParam(kind=DriverParamKind.SIZE, dtype=sizes, position=position, dim=dim)
    for dim in range(rank):
        yield DriverParam(kind=DriverParamKind.STRIDE, dtype=DType.I64, position=position, dim=dim)
