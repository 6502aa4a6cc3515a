"""Scopes: two nodes each, around what stands between their ops."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.ops import EnterMemoryPool, EnterProfile, ExitScope
from wrapper_ir.quoting import printable

__all__ = ["enter_memory_pool", "enter_profile", "exit_scope"]


def enter_profile(op: EnterProfile, scope: FunctionScope) -> None:
    """Torch's own scope of its profilers, which takes no text that is not UTF-8."""
    scope.entered.append(scope.call(targets.enter_profile, printable(op.name), printable(op.details)))


def enter_memory_pool(op: EnterMemoryPool, scope: FunctionScope) -> None:
    """The process's pool of this name. Raises NotSupportedError WIR224 for a device whose memory torch cannot take from pools."""
    if op.device.type != "cuda":
        raise scope.not_supported(
            "WIR224", f"torch has no memory pools on {op.device}", "leave the scope out, or use a CUDA device"
        )
    scope.entered.append(scope.call(targets.enter_memory_pool, op.name, str(op.device)))


def exit_scope(op: ExitScope, scope: FunctionScope) -> None:
    """The node that ends the innermost one."""
    if not scope.entered:
        raise scope.invalid("a scope ends where none is open")
    scope.call(targets.exit_scope, scope.entered.pop())
