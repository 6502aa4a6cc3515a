"""Storages of the program for results that operators would allocate."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from wrapper_ir import ir
from wrapper_ir.expr import Int, mul, prove_eq
from wrapper_ir_passes.cleanup.new_names import NewNames


def can_allocate(result: ir.Value[ir.TensorType], symbols: Collection[str]) -> bool:
    """Returns whether a storage for the result can be allocated where these symbols are known.

    Its sizes are known there, and all bytes are elements.
    """
    type = result.type
    nbytes = mul(ir.numel(type.sizes), Int(type.dtype.itemsize))
    return ir.type_symbols(type) <= {*symbols} and prove_eq(ir.extent_bytes(type), nbytes)


def allocate_result(op: ir.CallExtern, result: ir.Value[ir.TensorType], new: NewNames) -> Iterator[ir.Op]:
    """Yields an allocation before the call `op`, and the result as a view of it."""
    type = ir.StorageType(ir.extent_bytes(result.type), result.type.device)
    storage = ir.Value(new(f"{result.name}.s"), type)
    yield ir.AllocStorage(result=storage, stream=op.stream, prov=op.prov)
    yield ir.View(source=storage, result=result, prov=op.prov)


def only_result(results: ir.Value, function: ir.Function) -> ir.Value[ir.TensorType] | None:
    """Returns the first result of a call; None if the program uses others, or the first one twice."""
    first: list[ir.Value] = []
    for op in function.body:
        match op:
            case ir.Unpack(source=source, path=(0,)) if source == results:
                first.append(op.result)
            case ir.Drop():
                pass
            case _ if results in ir.operands(op):
                return None
            case _:
                pass
    match first:
        case [result] if ir.is_tensor(result):
            return result
        case _:
            return None


def is_settled(op: ir.Op, allocated: Collection[ir.Value]) -> bool:
    """Returns whether an op only checks the layout and alignment with which tensors are allocated."""
    match op:
        case ir.AssertLayout(tensors=tensors, alignment=alignment):
            layouts = ir.asserted_layouts(op)
            is_allocated = all(value in allocated for value in tensors)
            is_same = all((v.type.sizes, v.type.strides) == (sizes, strides) for v, sizes, strides in layouts)
            return is_allocated and is_same and alignment <= ir.DEFAULT_ALIGNMENT
        case _:
            return False
