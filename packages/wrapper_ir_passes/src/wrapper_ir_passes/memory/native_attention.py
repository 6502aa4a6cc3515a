"""Calls of attention on a CPU that the native runtime can compute into a given tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir.operators.native import ATTENTION
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.cleanup.result_storages import allocate_result, only_result

_FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """A call without dropout, of whose results the program reads only the first, `result`."""

    result: ir.Value[ir.TensorType]
    args: tuple[ir.Arg, ...]

    def write(self, op: ir.CallExtern, new: NewNames) -> Iterator[ir.Op]:
        """Yields an allocation of the result, and the call that writes it."""
        yield from allocate_result(op, self.result, new)
        out = (("out", self.result),)
        yield replace(op, target=ATTENTION.name, args=self.args, kwargs=out, result=None)


def attention_calls(function: ir.Function, analyses: Analyses) -> Mapping[ir.Value, AttentionCall]:
    """Returns the calls by their nested results, which the calls without dropout no longer have."""
    calls: dict[ir.Value, AttentionCall] = {}
    for op in function.ops_of(ir.CallExtern):
        info = analyses.operator(op.target)
        if op.target == _FLASH and op.result is not None and info is not None:
            args = dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)
            result = only_result(op.result, function)
            if result is not None and args.get("dropout_p", Int(0)) in (Int(0), Float(0.0)):
                rest = (args.get("is_causal", Bool(False)), args.get("attn_mask"), args.get("scale"))
                calls[op.result] = AttentionCall(result, (args["query"], args["key"], args["value"], *rest))
    return calls
