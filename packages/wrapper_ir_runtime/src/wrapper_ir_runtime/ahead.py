"""Compiles the kernels of an artifact ahead of time, also on machines that cannot run them."""

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
    """Returns the artifact with its kernels compiled; these replace its existing binaries.

    With `candidates`, all candidate configs are compiled, so that tuning on the device compiles nothing.
    `archs` are the architectures to compile for (`sm_80`, `sm_90`); the default is the target's. Raises
    PluginError WIR904 for kernels of a runtime that does not compile ahead of time, and what runtimes raise.
    """
    program = artifact.program
    binaries: list[ir.KernelBinary] = []
    for kind, kernels in kernels_by_runtime(program.kernels).items():
        runtime = find(kind)
        if not isinstance(runtime, AheadCompiler):
            raise PluginError(
                "WIR904",
                f"the runtime of kernels of kind {kind!r} does not compile ahead, "
                f"as {kernels[0].name!r} would need",
                hint="such kernels are compiled where they are loaded",
            )
        for arch in dict.fromkeys(archs or [program.target.arch]):
            binaries += runtime.compile_ahead(kernels, replace(program.target, arch=arch), candidates)
    return replace(artifact, binaries=tuple(binaries))
