"""Tuning at conversion: the undecided kernels of a program are measured before its graph is created.

The choices are written into the program, so that both forms of calls, and saved graphs, contain only the
chosen kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from fx_converter.errors import ConvertError
from fx_converter.nodes import Value
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import KernelTuner
from wrapper_ir.plugins.registry import machine as find_machine
from wrapper_ir_runtime import FindRuntime
from wrapper_ir_runtime.kernels import kernels_by_runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTuning:
    """Options of tuning at conversion.

    `inputs` are flat arguments of the program to measure with, which are not changed. None creates inputs
    with the sizes of `hints` (values of symbols by name), or else of the symbols' own hints. Kernels without
    known sizes are skipped, with a warning of their runtime (TR606). `machine` names the tensor library to
    measure with. None measures nothing: choices follow from recorded times, the artifact's own and those of
    `others`. Kernels without recorded times keep the program's default, the first config.
    """

    inputs: Sequence[Value] | None = None
    hints: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    machine: str | None = "torch"
    others: Sequence[Artifact] = ()


def tuned(artifact: Artifact, tuning: KernelTuning, find_runtime: FindRuntime) -> Artifact:
    """Returns the artifact with the choices of its kernels' runtimes that tune.

    Raises ConvertError FX103 for hints of symbols that the program does not have, PluginError for runtimes or
    a machine that are not installed, and the errors of running the inputs and of the runtimes.
    """
    declared = {symbol.name for symbol in artifact.program.symbols}
    if unknown := sorted(tuning.hints.keys() - declared):
        raise ConvertError(
            "FX103",
            f"there is a hint for {', '.join(unknown)}",
            hint=f"the program's symbols are {', '.join(sorted(declared)) or 'none'}",
        )
    runtimes = [find_runtime(kind) for kind in kernels_by_runtime(artifact.program.kernels)]
    for runtime in runtimes:
        if isinstance(runtime, KernelTuner):
            artifact = runtime.tune(
                artifact,
                machine=None if tuning.machine is None else find_machine(tuning.machine),
                others=tuning.others,
                symbols=tuning.hints,
                inputs=tuning.inputs,
                assume=False,
            )
    return artifact
