"""Kernels of a program, loaded through the runtimes that are registered for their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wrapper_ir.kernels import KernelDef, runtime_kind
from wrapper_ir.program import Target
from wrapper_ir.protocols import KernelRuntime, LoadedKernel
from wrapper_ir.registry import kernel_runtime

__all__ = ["FindRuntime", "load_kernels"]

FindRuntime = Callable[[str], KernelRuntime]


def load_kernels(
    kernels: Iterable[KernelDef], target: Target, find: FindRuntime = kernel_runtime
) -> dict[str, LoadedKernel]:
    """Loads kernels, by name, all of one kind at once. Raises PluginError for a kind without a runtime."""
    by_kind: dict[str, list[KernelDef]] = {}
    for kernel in kernels:
        by_kind.setdefault(runtime_kind(kernel), []).append(kernel)
    loaded: dict[str, LoadedKernel] = {}
    for kind, group in by_kind.items():
        loaded |= find(kind).load_all(group, target)
    return loaded
