"""Kernels of a program, loaded through the runtimes that are registered for their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wrapper_ir.ir.kernels import KernelBinary, KernelDef, runtime_kind
from wrapper_ir.ir.program import Target
from wrapper_ir.plugins.protocols import AheadCompiler, KernelRuntime, LoadedKernel
from wrapper_ir.plugins.registry import kernel_runtime

FindRuntime = Callable[[str], KernelRuntime]


def load_kernels(
    kernels: Iterable[KernelDef],
    target: Target,
    find: FindRuntime = kernel_runtime,
    binaries: Sequence[KernelBinary] = (),
) -> dict[str, LoadedKernel]:
    """Loads kernels, by name, all of one kind at once; what is among `binaries` need not be compiled. Raises PluginError
    for a kind without a runtime."""
    loaded: dict[str, LoadedKernel] = {}
    for kind, group in kernels_by_runtime(kernels).items():
        runtime = find(kind)
        own = [binary for binary in binaries if binary.runtime == kind]
        if own and isinstance(runtime, AheadCompiler):
            runtime = runtime.with_binaries(own)
        loaded |= runtime.load_all(group, target)
    return loaded


def kernels_by_runtime(kernels: Iterable[KernelDef]) -> dict[str, list[KernelDef]]:
    """Kernels by the kind of their runtime."""
    by_kind: dict[str, list[KernelDef]] = {}
    for kernel in kernels:
        by_kind.setdefault(runtime_kind(kernel), []).append(kernel)
    return by_kind
