"""Tuning at conversion: what a program leaves open of its kernels is measured before its graph is made.

The choices are written into the program, so that both forms of calls, and saved graphs, hold the chosen kernels alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from fx_converter.errors import ConvertError
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import KernelTuner
from wrapper_ir.plugins.registry import machine as find_machine
from wrapper_ir_runtime import FindRuntime
from wrapper_ir_runtime.kernels import kernels_by_runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTuning:
    """How kernels are tuned when a graph is made.

    `inputs` are flat arguments of the program to measure on, which are left as they are; None makes some up, whose sizes
    are those of `hints` (values of symbols by name), or else the symbols' own hints. Kernels whose sizes nothing says are
    passed over, with a warning of their runtime (TR606). `machine` names the tensor library to measure with; None measures
    nothing: choices follow from times that are known, the artifact's own and those of `others`. What no time decides
    stays as the program has it: a kernel's first config.
    """

    inputs: Sequence[Any] | None = None  # Any: tensors and numbers
    hints: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    machine: str | None = "torch"
    others: Sequence[Artifact] = ()


def tuned(artifact: Artifact, tuning: KernelTuning, find_runtime: FindRuntime) -> Artifact:
    """The artifact with the choices of those of its kernels' runtimes that tune.

    Raises ConvertError FX103 for hints of symbols that the program does not have, PluginError for runtimes or a machine
    that are not installed, and what running the inputs and the runtimes raise.
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
                given=tuning.hints,
                inputs=tuning.inputs,
                assume=False,
            )
    return artifact
