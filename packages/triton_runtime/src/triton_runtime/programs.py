"""Tunes whole programs: measures every launch with a choice, and writes the choices into the program."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from triton_runtime.choose.multi import variant_keys
from triton_runtime.errors import TritonRuntimeError, TuningError
from triton_runtime.explained_choices import choice_of, with_explained
from triton_runtime.tune import (
    NOISE,
    DeviceKey,
    Entry,
    Measurements,
    TuningKey,
    measured_config,
    measurements_of,
    with_measurements,
)
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.choices import Choice as ExplainedChoice
from wrapper_ir.errors import WirError
from wrapper_ir.json.kernel_hash import content_hash, multi_hash
from wrapper_ir.plugins.protocols import KernelRuntime, Machine
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_passes.tuning.apply_choices import with_choices
from wrapper_ir_passes.tuning.tuning_programs import TuningProgram, tuning_programs
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, example_inputs, run
from wrapper_ir_runtime.interp.frame import Content

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative differences that are ignored: among configs, and among the kernels of a multi-kernel."""

    configs: float = NOISE
    kernels: float = NOISE


@dataclass(frozen=True, slots=True, kw_only=True)
class TunableRuntime:
    """A runtime that tunes kernels at their first launches.

    `kernels` loads them, including those compiled ahead. `measurements` returns the times measured so far on
    `device`.
    """

    kernels: KernelRuntime
    measurements: Callable[[], Measurements]
    device: DeviceKey
    noise: Noise


def known_times(
    measurements: Measurements, artifact: Artifact, others: Sequence[Artifact] = ()
) -> Measurements:
    """Merges `measurements` with the times in an artifact and in others. Raises TuningError TR601."""
    return measurements.merged(measurements_of(artifact), *map(measurements_of, others))


def tune_artifact(
    runtime: TunableRuntime,
    artifact: Artifact,
    machine: Machine[T],
    *,
    symbols: Mapping[str, int] | None = None,
    inputs: Sequence[Content] | None = None,
    assume: bool = True,
) -> Artifact:
    """Returns the artifact with every possible choice in its program, and all times in its measurements.

    Times that the runtime lacks are measured on its device. With `inputs`, flat arguments of `main`, the
    whole program runs on copies of them, which also determines its symbols. Launches that this does not reach
    run one by one on inputs that `machine` generates. `symbols` has values of symbols. A launch that cannot
    run is left as it is, with a warning (TR606); so is, without `assume`, one with unknown sizes. Raises
    TuningError TR601, and TR605 as `replay_artifact` does.
    """
    carrying = runtime.kernels
    options = InterpOptions(
        find_runtime=lambda kind: carrying if kind == carrying.kind else kernel_runtime(kind)
    )
    if inputs is not None:
        copies = [machine.clone(x) if machine.is_tensor(x) else x for x in inputs]
        symbols = {**_run_through(Interpreter(artifact, machine, options), copies), **(symbols or {})}
    for one in tuning_programs(artifact.program, symbols):
        if one.assumed and not assume:
            if not _knows(runtime.measurements(), one):
                names = ", ".join(sorted(one.assumed))
                _warn(one, f"nothing is known of {names}; give a hint, or inputs")
            continue
        constants = {c.data_name: artifact.constants[c.data_name] for c in one.program.constants}
        try:
            arguments = example_inputs(one.program, machine, 0, {})
            run(bare_artifact(one.program, constants), arguments, machine, options)
        except (WirError, TritonRuntimeError, RuntimeError) as error:
            _warn(one, str(error))
    return replay_artifact(
        artifact, runtime.measurements(), device=runtime.device, symbols=symbols, noise=runtime.noise
    )


def _run_through(interpreter: Interpreter[T], inputs: list[Content]) -> dict[str, int]:
    """Runs a program to its end; returns the first value of each symbol."""
    frames: dict[int, Mapping[str, int | float]] = {}
    for step in interpreter.steps(inputs):
        frames.setdefault(id(step.symbols), step.symbols)
    items = [item for frame in frames.values() for item in frame.items()]
    return {name: value for name, value in reversed(items) if type(value) is int}


def _knows(measurements: Measurements, one: TuningProgram) -> bool:
    """True if there are times for the choice of this launch."""
    kernels: dict[str, ir.KernelDef] = {k.name: k for k in one.program.kernels}
    hashes = {
        multi_hash(k, kernels) if isinstance(k, ir.MultiKernel) else content_hash(k) for k in kernels.values()
    }
    return any(key.kernel in hashes and any(e.times.values()) for key, e in measurements.entries.items())


def _warn(one: TuningProgram, why: str) -> None:
    """Warns that a launch is left as it is, at the level of the caller of `KernelTuner.tune`."""
    message = f"[TR606] a launch of @{one.launch.kernel} is not tuned: {why}"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def replay_artifact(
    artifact: Artifact,
    measurements: Measurements,
    *,
    device: DeviceKey | None = None,
    symbols: Mapping[str, int] | None = None,
    noise: Noise | None = None,
) -> Artifact:
    """Returns the artifact with the choices that follow from `measurements`, and with the measurements.

    Needs no device: choices depend only on the measurements, the program and `symbols`. `device` selects the
    times; None: the only device of the measurements. `noise` has relative differences that are ignored; None:
    the default. Raises TuningError TR605 if the measurements have several devices.
    """
    device = device or _only(measurements)
    if device is None:
        return artifact
    choices = _Choices(
        artifact, measurements, device, noise or Noise(), tuning_programs(artifact.program, symbols)
    )
    program = with_choices(artifact.program, choices.configs(), choices.variants())
    binaries = _still_wanted(artifact, program)
    explained = with_explained(artifact, program, choices.explained())
    return with_measurements(dataclasses.replace(explained, program=program, binaries=binaries), measurements)


def _still_wanted(artifact: Artifact, program: ir.Program) -> tuple[ir.KernelBinary, ...]:
    """Binaries of the kernels that `program` still has, under their new hashes."""
    names = {content_hash(kernel): kernel.name for kernel in artifact.program.kernels}
    now = {kernel.name: content_hash(kernel) for kernel in program.kernels}
    return tuple(
        dataclasses.replace(binary, kernel=now[names[binary.kernel]])
        for binary in artifact.binaries
        if names.get(binary.kernel) in now and _has_config(program.kernel(names[binary.kernel]), binary)
    )


def _has_config(kernel: ir.KernelDef, binary: ir.KernelBinary) -> bool:
    """True if the kernel still has the config of the binary."""
    return not isinstance(kernel, ir.TritonKernel) or binary.config in kernel.configs


def _only(measurements: Measurements) -> DeviceKey | None:
    devices = sorted({(key.device, key.compiler) for key in measurements.entries})
    if len(devices) > 1:
        device_list = "; ".join(f"{device}, Triton {compiler}" for device, compiler in devices)
        raise TuningError(
            "TR605",
            f"the measurements are of several devices: {device_list}",
            hint="pass measurements of one device",
        )
    return DeviceKey(*devices[0]) if devices else None


@dataclass(frozen=True, slots=True)
class _Choices:
    """The choices for a program's kernels that follow from measurements."""

    artifact: Artifact
    measurements: Measurements
    device: DeviceKey
    noise: Noise
    programs: Sequence[TuningProgram]

    def configs(self) -> dict[str, ir.TritonConfig]:
        """The config of each kernel. Among launches with different numbers, the one with the largest total
        time decides.
        """
        configs: dict[str, ir.TritonConfig] = {}
        for kernel in self.artifact.program.kernels:
            if isinstance(kernel, ir.TritonKernel) and (entry := self._deciding(kernel)) is not None:
                winner = entry.decision(self.noise.configs).winner
                configs[kernel.name] = measured_config(kernel, winner)
        return configs

    def variants(self) -> dict[str, int]:
        """The variant of each multi-kernel that is chosen by measurement."""
        kernels: dict[str, ir.KernelDef] = {k.name: k for k in self.artifact.program.kernels}
        indices: dict[str, int] = {}
        for kernel in kernels.values():
            entry = self._entry_of_variants(kernel, kernels)
            if entry is not None:
                indices[kernel.name] = int(entry.decision(self.noise.kernels).winner)
        return indices

    def explained(self) -> dict[str, ExplainedChoice]:
        """Each choice with its candidates and their times, by kernel."""
        kernels: dict[str, ir.KernelDef] = {k.name: k for k in self.artifact.program.kernels}
        choices: dict[str, ExplainedChoice] = {}
        for kernel in kernels.values():
            one = self._deciding(kernel) if isinstance(kernel, ir.TritonKernel) else None
            noise = self.noise.configs
            if one is None:
                one, noise = self._entry_of_variants(kernel, kernels), self.noise.kernels
            if one is not None:
                decision = one.decision(noise)
                choices[kernel.name] = choice_of(kernel, one, decision, self.device.model)
        return choices

    def _entry_of_variants(self, kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> Entry | None:
        """The times of the variants of a multi-kernel that is chosen by measurement."""
        if not isinstance(kernel, ir.MultiKernel) or kernel.choice is not ir.Choice.MEASURE:
            return None
        entry = self.measurements.find(self._key(multi_hash(kernel, kernels)))
        is_complete = entry is not None and entry.order == variant_keys(kernel) and any(entry.times.values())
        return entry if is_complete else None

    def _deciding(self, kernel: ir.TritonKernel) -> Entry | None:
        """The times that decide the config: of the launch with the largest total time, the first among
        equals.
        """
        weighted = [(self._weight(entry, one), entry) for one, entry in self._entries(kernel)]
        return max(weighted, key=lambda pair: pair[0])[1] if weighted else None

    def _entries(self, kernel: ir.TritonKernel) -> Iterator[tuple[TuningProgram, Entry]]:
        for one in self.programs:
            if any(k.name == kernel.name for k in one.program.kernels):
                key = self._key(content_hash(kernel), one.numbers(kernel.name))
                entry = self.measurements.find(key)
                if entry is not None and any(entry.times.values()):
                    yield one, entry

    def _weight(self, entry: Entry, one: TuningProgram) -> float:
        decision = entry.decision(self.noise.configs)
        return one.count * decision.means[decision.best]

    def _key(self, kernel: str, numbers: Sequence[float] = ()) -> TuningKey:
        return TuningKey(kernel, self.device.model, self.device.compiler, tuple(numbers))
