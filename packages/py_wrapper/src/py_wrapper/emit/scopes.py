"""Writes scopes: `with` blocks around what stands between their ops."""

from __future__ import annotations

from py_wrapper.emit.scope import FunctionScope
from wrapper_ir.ops import EnterMemoryPool, EnterProfile, ExitScope
from wrapper_ir.quoting import printable, python_string

__all__ = ["enter_memory_pool", "enter_profile", "exit_scope"]


def enter_profile(op: EnterProfile, scope: FunctionScope) -> None:
    """Torch's own scope of its profilers, which takes no text that is not UTF-8."""
    texts = [python_string(printable(text)) for text in ((op.name, op.details) if op.details else (op.name,))]
    scope.out.open_block(f"with torch.profiler.record_function({', '.join(texts)}):")


def enter_memory_pool(op: EnterMemoryPool, scope: FunctionScope) -> None:
    """The process's pool of this name. Raises NotSupportedError WIR224 for a device whose memory torch cannot take from pools."""
    if op.device.type != "cuda":
        raise scope.not_supported(
            "WIR224", f"torch has no memory pools on {op.device}", "leave the scope out, or use a CUDA device"
        )
    use = scope.module.runtime("use_memory_pool")
    text = f"{use}(torch, {python_string(op.name)}, {python_string(str(op.device))})"
    scope.out.open_block(f"with {text}:")


def exit_scope(op: ExitScope, scope: FunctionScope) -> None:
    """The end of a block."""
    scope.out.close_block()
