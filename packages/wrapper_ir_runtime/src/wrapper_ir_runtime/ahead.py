"""Compiles the kernels of an artifact before it is used, perhaps on a machine that cannot run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.protocols import AheadCompiler
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_runtime.kernels import FindRuntime, kernels_by_runtime


def compile_ahead(
    artifact: Artifact,
    *,
    candidates: bool = False,
    archs: Sequence[str] = (),
    find: FindRuntime = kernel_runtime,
) -> Artifact:
    """The artifact with its kernels compiled, in the place of those that it had.

    `candidates`: with all of their candidate configs, so that tuning on the device compiles nothing. `archs`: the
    architectures of the target's device to compile for, side by side (`sm_80`, `sm_90`); empty: the target's own. Raises
    PluginError WIR904 for kernels of a runtime that does not compile ahead, and what runtimes raise.
    """
    program = artifact.program
    found: list[ir.KernelBinary] = []
    for kind, kernels in kernels_by_runtime(program.kernels).items():
        runtime = find(kind)
        if not isinstance(runtime, AheadCompiler):
            raise PluginError(
                "WIR904",
                f"the runtime of kernels of kind {kind!r} does not compile ahead, as {kernels[0].name!r} would need",
                hint="such kernels are compiled where they are loaded",
            )
        for arch in dict.fromkeys(archs or [program.target.arch]):
            found += runtime.compile_ahead(kernels, replace(program.target, arch=arch), candidates)
    return replace(artifact, binaries=tuple(found))
