"""The parameters of a compiled kernel: the only place that knows how Triton lowers a function's arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from triton_runtime.binding import DIVISIBLE, Binding, BoundArgument
from triton_runtime.errors import KernelError
from triton_runtime.protocols import Binary
from wrapper_ir import ir

_SCRATCH: Final = (
    ir.DriverParam(kind=ir.DriverParamKind.SCRATCH, dtype=ir.DType.U8),
    ir.DriverParam(kind=ir.DriverParamKind.PROFILE, dtype=ir.DType.U8),
)
"""Appended to the arguments of every kernel."""
_BY_VALUE = frozenset(
    ir.DType(name) for name in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool")
)
_BY_VALUE |= {ir.DType.F64, ir.DType.F32, ir.DType.F16, ir.DType.BF16}


def driver_params(kernel: str, binding: Binding, binary: Binary) -> tuple[ir.DriverParam, ...]:
    """The parameters that the driver passes for the arguments of a launch.

    Descriptors are expanded, and pointers to scratch memory are appended. Raises KernelError TR103 for a
    number of a type that cannot be passed by value, TR109 if the compiled kernel has other parameters than
    Triton is known to generate.
    """
    described = [a for a in binding.arguments if a.kind is ir.ParamKind.DESCRIPTOR]
    maps = dict(zip([a.position for a in described], binary.maps))
    params = _expanded(kernel, binding, maps, 0)
    count = binary.assembly.split(".entry", 1)[-1].split("{", 1)[0].count(".param")
    if count == 0:  # nothing to compare with
        return params
    missing = count - len(params)
    if described and not maps and missing in (len(described), 2 * len(described)):
        # versions of Triton differ in the number of flags after a descriptor's strides
        return _expanded(kernel, binding, maps, missing // len(described))
    if missing != 0:
        raise KernelError(
            "TR109",
            f"kernel '{kernel}' takes {count} parameters, where {len(params)} would be passed",
            f"Triton {binary.compiler} uses a calling convention that this version does not support",
        )
    return params


def _expanded(
    kernel: str, binding: Binding, maps: dict[int, ir.TensorMap], flags: int
) -> tuple[ir.DriverParam, ...]:
    params: list[ir.DriverParam] = []
    for argument in binding.arguments:
        if argument.kind is ir.ParamKind.DESCRIPTOR:
            params += _descriptor(argument, maps.get(argument.position), flags)
        else:
            params.append(_plain(kernel, argument))
    return (*params, *_SCRATCH)


def _plain(kernel: str, argument: BoundArgument) -> ir.DriverParam:
    pointer = argument.kind is ir.ParamKind.POINTER
    if not pointer and argument.dtype not in _BY_VALUE:
        raise KernelError(
            "TR103",
            f"kernel '{kernel}': a number of {argument.dtype.value} ('{argument.name}') has no form in C",
        )
    relied_on = argument.divisible and (pointer or not argument.dtype.is_floating)
    return ir.DriverParam(
        kind=ir.DriverParamKind.POINTER if pointer else ir.DriverParamKind.NUMBER,
        dtype=argument.dtype,
        position=argument.position,
        divisible=DIVISIBLE if relied_on else 1,
    )


def _descriptor(argument: BoundArgument, map: ir.TensorMap | None, flags: int) -> Iterator[ir.DriverParam]:
    """Expands a descriptor: a tensor map, or address, sizes, strides, and `flags` zeros (zero padding, no
    rounding).

    Sizes and strides follow in both cases.
    """
    at, rank = argument.position, len(argument.block)
    if map is not None:
        yield ir.DriverParam(kind=ir.DriverParamKind.TENSOR_MAP, dtype=argument.dtype, position=at, map=map)
    else:
        yield ir.DriverParam(kind=ir.DriverParamKind.POINTER, dtype=argument.dtype, position=at)
        yield from _layout(at, rank, ir.DType.I64)
        for _ in range(flags):
            yield ir.DriverParam(kind=ir.DriverParamKind.ZERO, dtype=ir.DType.BOOL, position=at)
    yield from _layout(at, rank, ir.DType.I32)


def _layout(position: int, rank: int, sizes: ir.DType) -> Iterator[ir.DriverParam]:
    for dim in range(rank):
        yield ir.DriverParam(kind=ir.DriverParamKind.SIZE, dtype=sizes, position=position, dim=dim)
    for dim in range(rank):
        yield ir.DriverParam(kind=ir.DriverParamKind.STRIDE, dtype=ir.DType.I64, position=position, dim=dim)
