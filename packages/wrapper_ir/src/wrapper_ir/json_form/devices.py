"""Devices and types as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.json_form.reading import (
    Json,
    each,
    fault,
    field,
    integer,
    member,
    members_of,
    obj,
    only,
    string,
)
from wrapper_ir.types import (
    Device,
    DType,
    MemoryKind,
    MemorySpace,
    OpaqueKind,
    OpaqueType,
    ScalarType,
    StorageType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["TYPE_KINDS", "decode_device", "decode_type", "encode_device", "encode_type"]

TYPE_KINDS = ("tensor", "storage", "scalar", "results", "opaque")

_dtype = member(members_of(DType), "element type")
_memory_kind = member(members_of(MemoryKind), "memory space")
_scalar = member(members_of(SymKind), "scalar")
_opaque = member(members_of(OpaqueKind), "opaque type")


def encode_device(device: Device) -> Json:
    """`{"index": 0, "type": "cuda"}`."""
    return {"type": device.type, "index": device.index}


def decode_device(x: Json) -> Device:
    """The inverse of `encode_device`."""
    o = obj(x)
    only(o, ("type", "index"))
    return Device(field(o, "type", string), field(o, "index", lambda i: None if i is None else integer(i)))


def encode_type(type: Type, expr: Callable[[Expr], Json]) -> Json:
    """The JSON of a type; `expr` encodes the expressions in it."""
    match type:
        case TensorType():
            return {
                "kind": "tensor",
                "dtype": type.dtype.value,
                "sizes": [expr(e) for e in type.sizes],
                "strides": [expr(e) for e in type.strides],
                "device": encode_device(type.device),
            }
        case StorageType(nbytes, device, space):
            place: Json = {"kind": space.kind.value, "group": space.group, "alloc_id": space.alloc_id}
            return {
                "kind": "storage",
                "nbytes": expr(nbytes),
                "device": encode_device(device),
                "space": place,
            }
        case ScalarType(kind):
            return {"kind": "scalar", "scalar": kind.value}
        case TupleType():
            return {"kind": "results"}
        case OpaqueType(opaque, detail):
            return {"kind": "opaque", "opaque": opaque.value, "detail": detail}
        case _:
            assert_never(type)


def decode_type(x: Json, expr: Callable[[Json], Expr]) -> Type:
    """The inverse of `encode_type`; `expr` decodes the expressions in it."""
    o = obj(x)
    match field(o, "kind", string):
        case "tensor":
            only(o, ("kind", "dtype", "sizes", "strides", "device"))
            return TensorType(
                field(o, "dtype", _dtype),
                field(o, "sizes", lambda s: each(s, expr)),
                field(o, "strides", lambda s: each(s, expr)),
                field(o, "device", decode_device),
            )
        case "storage":
            only(o, ("kind", "nbytes", "device", "space"))
            return StorageType(
                field(o, "nbytes", expr), field(o, "device", decode_device), field(o, "space", _space)
            )
        case "scalar":
            only(o, ("kind", "scalar"))
            return ScalarType(field(o, "scalar", _scalar))
        case "results":
            only(o, ("kind",))
            return TupleType()
        case "opaque":
            only(o, ("kind", "opaque", "detail"))
            return OpaqueType(field(o, "opaque", _opaque), field(o, "detail", string))
        case other:
            return fault(f"unknown type {other[:40]!r}", "WIR522")


def _space(x: Json) -> MemorySpace:
    o = obj(x)
    only(o, ("kind", "group", "alloc_id"))
    return MemorySpace(
        field(o, "kind", _memory_kind), field(o, "group", string), field(o, "alloc_id", integer)
    )
