"""Emits the final reduction of partial results that a kernel has written to scratch memory."""

from __future__ import annotations

import torch
from torch._inductor.virtualized import V

from inductor_frontend.errors import ConversionError
from inductor_frontend.operators.schemas import extern_def
from inductor_frontend.record.events import FinishReduction
from inductor_frontend.scope.scope import Scope
from wrapper_ir import ir
from wrapper_ir.expr import Bool, Int, mul


def finish_reduction(scope: Scope, event: FinishReduction) -> None:
    """Reduces the rows of the float32 partial results into a buffer.

    Raises ConversionError FE301 for an unsupported reduction, FE307 for a buffer that is not contiguous.
    """
    if event.name in scope.graph.removed_buffers:
        return
    scope.function.prov = scope.provenance.read(V.graph.get_buffer(event.name).origins, event.name)
    target = scope.value(event.name)
    assert ir.is_tensor(target)
    if not ir.is_contiguous(target.type.sizes, target.type.strides):
        raise ConversionError(
            "FE307", f"buffer {event.name}, which a kernel reduces in part, is not contiguous"
        )
    splits, width = scope.expr(event.splits), scope.expr(event.width)
    device = target.type.device
    parts = scope.make_view(
        f"{event.name}.parts",
        scope.value(event.workspace),
        ir.TensorType(ir.DType.F32, (splits, width), (width, Int(1)), device),
        mul(Int(event.part * ir.DType.F32.itemsize), splits, width),
    )
    row = ir.TensorType(target.type.dtype, (width,), (Int(1),), device)
    whole = scope.make_view(f"{event.name}.row", target, row)
    if row.dtype is ir.DType.F32:
        _reduce(scope, event, parts, whole)
        return
    wide = ir.TensorType(ir.DType.F32, row.sizes, row.strides, device)
    total = scope.function.alloc(f"{event.name}.total", wide)
    _reduce(scope, event, parts, total)
    scope.function.append(ir.Copy(dst=whole, src=total, prov=scope.function.prov))


def _reduce(scope: Scope, event: FinishReduction, parts: ir.Value, out: ir.Value) -> None:
    match event.reduction:
        case "sum":
            extern = extern_def(torch.ops.aten.sum.IntList_out)
            scope.function.call(extern, (parts, (Int(0),), Bool(False)), (("out", out),))
        case "prod":
            extern = extern_def(torch.ops.aten.prod.int_out)
            scope.function.call(extern, (parts, Int(0), Bool(False)), (("out", out),))
        case other:
            raise ConversionError(
                "FE301",
                f"a kernel writes partial results of an unsupported reduction, {other}, for {event.name}",
            )
