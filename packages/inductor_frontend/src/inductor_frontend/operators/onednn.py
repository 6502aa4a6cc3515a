"""Extern nodes of oneDNN: Inductor's classes add a C++ header and are library calls otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch._inductor import ir, mkldnn_ir

from inductor_frontend.operators.calls import call_alloc, call_mutating
from inductor_frontend.scope.scope import Scope

ONEDNN_HANDLERS: Mapping[
    type[ir.ExternKernel], Callable[[Scope, Any], None]
] = {  # Any: each handler accepts a different class
    mkldnn_ir.MkldnnRnnLayer: call_alloc,
    mkldnn_ir.WeightInt4PackMatmul: call_alloc,
    # with packed weights only
    mkldnn_ir.MKLPackedLinear: call_alloc,
    mkldnn_ir.LinearUnary: call_alloc,
    mkldnn_ir.LinearBinary: call_alloc,
    mkldnn_ir.ConvolutionUnary: call_alloc,
    mkldnn_ir.ConvolutionBinary: call_alloc,
    mkldnn_ir.ConvolutionTransposeUnary: call_alloc,
    mkldnn_ir.ConvolutionBinaryInplace: call_mutating,
}
"""Quantized operators are not included: their weights are packed before a capture begins."""
