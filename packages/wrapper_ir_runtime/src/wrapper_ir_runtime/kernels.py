"""Loads the kernels of a program through the runtimes that are registered for their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import AheadCompiler, KernelRuntime, LoadedKernel
from wrapper_ir.plugins.registry import kernel_runtime

FindRuntime = Callable[[str], KernelRuntime]


def load_kernels(
    kernels: Iterable[ir.KernelDef],
    target: ir.Target,
    find: FindRuntime = kernel_runtime,
    binaries: Sequence[ir.KernelBinary] = (),
) -> dict[str, LoadedKernel]:
    """Loads kernels, all of one kind at once; returns them by name.

    Kernels among `binaries` are not compiled. Raises PluginError for a kind without a runtime.
    """
    loaded: dict[str, LoadedKernel] = {}
    for kind, group in kernels_by_runtime(kernels).items():
        runtime = find(kind)
        own = [binary for binary in binaries if binary.runtime == kind]
        if own and isinstance(runtime, AheadCompiler):
            runtime = runtime.with_binaries(own)
        loaded |= runtime.load_all(group, target)
    return loaded


def kernels_by_runtime(kernels: Iterable[ir.KernelDef]) -> dict[str, list[ir.KernelDef]]:
    """Returns kernels grouped by the kind of their runtime."""
    by_kind: dict[str, list[ir.KernelDef]] = {}
    for kernel in kernels:
        by_kind.setdefault(ir.runtime_kind(kernel), []).append(kernel)
    return by_kind
