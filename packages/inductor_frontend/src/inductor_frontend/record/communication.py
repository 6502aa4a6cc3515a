"""Checks which of Inductor's communication buffers a program can represent."""

from __future__ import annotations

from torch._inductor import ir

from inductor_frontend.errors import HookError
from wrapper_ir.ir import Device


def check_communication_buffer(name: str, layout: ir.CommBufferLayout) -> None:
    """Raises HookError FE202 for a buffer that is not in symmetric memory, or whose device does not support
    it."""
    if layout.comm_buffer_type is not ir.CommBufferType.SYMM_MEM:
        raise HookError(
            "FE202",
            f"buffer {name} is a communication buffer of type {layout.comm_buffer_type.value}",
            hint="leave torch._inductor.config._collective.auto_select off",
        )
    if not Device(layout.device.type).traits.has_group_memory:
        raise HookError(
            "FE202",
            f"Inductor made buffer {name} a communication buffer of group {layout.group_name!r} on "
            f"{layout.device}, which has no symmetric memory",
            hint="leave torch._inductor.config._collective.auto_select off, or capture the model for a GPU",
        )
