"""Refuses operators that need a multicast object, which memory of programs does not have."""

from __future__ import annotations

from torch._inductor import ir
from torch._ops import OpOverload

from inductor_frontend.errors import ConversionError
from wrapper_ir.operators.symmetric import needs_multicast


def refuse_multicast(node: ir.ExternKernel) -> None:
    """Raises ConversionError FE310 for a call of such an operator."""
    overload = node.op_overload
    if isinstance(overload, OpOverload) and needs_multicast(overload._schema.name):
        raise ConversionError(
            "FE310",
            f"{overload._schema.name} needs a multicast object, and symmetric memory of programs has none",
            hint="use symm_mem::one_shot_all_reduce or symm_mem::two_shot_all_reduce_out, "
            "or call it outside of the captured part",
        )
