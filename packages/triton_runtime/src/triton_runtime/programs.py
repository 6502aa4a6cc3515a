"""Tunes programs to the end: measures every launch that leaves a choice, and writes the choices into the program."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton_runtime.choose.multi import variant_keys
from triton_runtime.errors import TritonRuntimeError, TuningError
from triton_runtime.explained_choices import choice_of, with_explained
from triton_runtime.tune import (
    NOISE,
    DeviceKey,
    Entry,
    TuningKey,
    TuningRecord,
    config_of,
    record_of,
    with_record,
)
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.choices import Choice as ExplainedChoice
from wrapper_ir.errors import WirError
from wrapper_ir.json.kernel_hash import content_hash, multi_hash
from wrapper_ir.plugins.protocols import KernelRuntime, Machine
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir_passes.tuning.choices import with_choices
from wrapper_ir_passes.tuning.tuning_programs import TuningProgram, tuning_programs
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, example_inputs, run

# Any in this file: a machine's tensors.


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative differences that decide nothing: among configs, and among the kernels of a multi-kernel."""

    configs: float = NOISE
    kernels: float = NOISE


@dataclass(frozen=True, slots=True, kw_only=True)
class TunableRuntime:
    """A runtime that tunes kernels at their first launches. `kernels` loads them, those compiled ahead among them; `record`
    gives the times that are known by now, which are of `device`."""

    kernels: KernelRuntime
    record: Callable[[], TuningRecord]
    device: DeviceKey
    noise: Noise


def known_times(record: TuningRecord, artifact: Artifact, records: Sequence[Artifact] = ()) -> TuningRecord:
    """`record`, with the times in an artifact and in others. Raises TuningError TR601."""
    return record.merged(record_of(artifact), *map(record_of, records))


def tune_artifact(
    runtime: TunableRuntime,
    artifact: Artifact,
    machine: Machine[Any],
    *,
    given: Mapping[str, int] | None = None,
    inputs: Sequence[Any] | None = None,
    assume: bool = True,
) -> Artifact:
    """The artifact with every choice that can be made written into its program, and all times into its record.

    What the runtime does not know is measured on its device: with `inputs`, flat arguments of `main`, in a run of the whole
    program on copies of them, which also says what its symbols are; what that does not reach, launch by launch on inputs
    that `machine` makes up. `given` are values of symbols. A launch that cannot run is left as it is, with a warning
    (TR606); so is, without `assume`, one whose sizes nothing is known of. Raises TuningError TR601, and TR605 as
    `replay_artifact` does.
    """
    carrying = runtime.kernels
    options = InterpOptions(
        find_runtime=lambda kind: carrying if kind == carrying.kind else kernel_runtime(kind)
    )
    if inputs is not None:
        copies = [machine.clone(x) if machine.is_tensor(x) else x for x in inputs]
        given = {**_run_through(Interpreter(artifact, machine, options), copies), **(given or {})}
    for one in tuning_programs(artifact.program, given):
        if one.assumed and not assume:
            if not _knows(runtime.record(), one):
                names = ", ".join(sorted(one.assumed))
                _warn(one, f"nothing is known of {names}; give a hint, or inputs")
            continue
        constants = {c.data_name: artifact.constants[c.data_name] for c in one.program.constants}
        try:
            made = example_inputs(one.program, machine, 0, {})
            run(bare_artifact(one.program, constants), made, machine, options)
        except (WirError, TritonRuntimeError, RuntimeError) as error:
            _warn(one, str(error))
    return replay_artifact(
        artifact, runtime.record(), device=runtime.device, given=given, noise=runtime.noise
    )


def _run_through(interpreter: Interpreter[Any], inputs: list[Any]) -> dict[str, int]:
    """Runs a program to its end; the sizes that its symbols stood for, the first time that they did."""
    frames: dict[int, Mapping[str, int | float]] = {}
    for step in interpreter.steps(inputs):
        frames.setdefault(id(step.symbols), step.symbols)
    found = [item for frame in frames.values() for item in frame.items()]
    return {name: value for name, value in reversed(found) if type(value) is int}


def _knows(record: TuningRecord, one: TuningProgram) -> bool:
    """Whether there are times of what the launch chooses from."""
    kernels: dict[str, ir.KernelDef] = {k.name: k for k in one.program.kernels}
    hashes = {
        multi_hash(k, kernels) if isinstance(k, ir.MultiKernel) else content_hash(k) for k in kernels.values()
    }
    return any(key.kernel in hashes and any(e.times.values()) for key, e in record.entries.items())


def _warn(one: TuningProgram, why: str) -> None:
    """A launch is left as it is. The level is the caller's of `KernelTuner.tune`."""
    message = f"[TR606] a launch of @{one.launch.kernel} is not tuned: {why}"
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def replay_artifact(
    artifact: Artifact,
    record: TuningRecord,
    *,
    device: DeviceKey | None = None,
    given: Mapping[str, int] | None = None,
    noise: Noise | None = None,
) -> Artifact:
    """The artifact with the choices that `record` leads to, and with the record. Needs no device: choices follow from the
    record, the program and `given` alone.

    `device`: whose times count; None: the only device of the record. `noise`: relative differences that decide nothing;
    None: the default. Raises TuningError TR605 where the record is of several devices.
    """
    device = device or _only(record)
    if device is None:
        return artifact
    choices = _Choices(artifact, record, device, noise or Noise(), tuning_programs(artifact.program, given))
    program = with_choices(artifact.program, choices.configs(), choices.variants())
    binaries = _still_wanted(artifact, program)
    explained = with_explained(artifact, program, choices.explained())
    return with_record(dataclasses.replace(explained, program=program, binaries=binaries), record)


def _still_wanted(artifact: Artifact, program: ir.Program) -> tuple[ir.KernelBinary, ...]:
    """What an artifact carries for kernels that `program` still has, under what these are now."""
    names = {content_hash(kernel): kernel.name for kernel in artifact.program.kernels}
    now = {kernel.name: content_hash(kernel) for kernel in program.kernels}
    return tuple(
        dataclasses.replace(binary, kernel=now[names[binary.kernel]])
        for binary in artifact.binaries
        if names.get(binary.kernel) in now and _has_config(program.kernel(names[binary.kernel]), binary)
    )


def _has_config(kernel: ir.KernelDef, binary: ir.KernelBinary) -> bool:
    """Whether the kernel may still be taken as it was compiled."""
    return not isinstance(kernel, ir.TritonKernel) or binary.config in kernel.configs


def _only(record: TuningRecord) -> DeviceKey | None:
    found = sorted({(key.device, key.compiler) for key in record.entries})
    if len(found) > 1:
        shown = "; ".join(f"{device}, Triton {compiler}" for device, compiler in found)
        raise TuningError(
            "TR605", f"the records are of several devices: {shown}", hint="give records of one device only"
        )
    return DeviceKey(*found[0]) if found else None


@dataclass(frozen=True, slots=True)
class _Choices:
    """What a record says of a program's kernels."""

    artifact: Artifact
    record: TuningRecord
    device: DeviceKey
    noise: Noise
    programs: Sequence[TuningProgram]

    def configs(self) -> dict[str, ir.TritonConfig]:
        """By kernel. Of launches of one kernel with different numbers, the one decides that takes the longest in all."""
        found: dict[str, ir.TritonConfig] = {}
        for kernel in self.artifact.program.kernels:
            if not isinstance(kernel, ir.TritonKernel):
                continue
            entry = self._deciding(kernel)
            if entry is None:
                continue
            winner = entry.decision(self.noise.configs).winner
            config = config_of(kernel, winner)
            if config is None:
                raise TuningError(
                    "TR601",
                    f"the record has a config that @{kernel.name} does not: {winner}",
                    hint="tune again",
                )
            found[kernel.name] = config
        return found

    def variants(self) -> dict[str, int]:
        """By multi-kernel that is chosen by measurement."""
        kernels: dict[str, ir.KernelDef] = {k.name: k for k in self.artifact.program.kernels}
        found: dict[str, int] = {}
        for kernel in kernels.values():
            entry = self._entry_of_variants(kernel, kernels)
            if entry is not None:
                found[kernel.name] = int(entry.decision(self.noise.kernels).winner)
        return found

    def explained(self) -> dict[str, ExplainedChoice]:
        """Each choice with its candidates and their times, by kernel."""
        kernels: dict[str, ir.KernelDef] = {k.name: k for k in self.artifact.program.kernels}
        found: dict[str, ExplainedChoice] = {}
        for kernel in kernels.values():
            one = self._deciding(kernel) if isinstance(kernel, ir.TritonKernel) else None
            noise = self.noise.configs
            if one is None:
                one, noise = self._entry_of_variants(kernel, kernels), self.noise.kernels
            if one is not None:
                decision = one.decision(noise)
                found[kernel.name] = choice_of(kernel, one, decision, self.device.model)
        return found

    def _entry_of_variants(self, kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> Entry | None:
        """The times of the kernels that a multi-kernel, chosen by measurement, stands for."""
        if not isinstance(kernel, ir.MultiKernel) or kernel.choice is not ir.Choice.MEASURE:
            return None
        entry = self.record.find(self._key(multi_hash(kernel, kernels)))
        known = entry is not None and entry.order == variant_keys(kernel) and any(entry.times.values())
        return entry if known else None

    def _deciding(self, kernel: ir.TritonKernel) -> Entry | None:
        """The times that decide the config: of the launch that takes the longest in all, the first of equals."""
        found = [(self._weight(entry, one), entry) for one, entry in self._entries(kernel)]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def _entries(self, kernel: ir.TritonKernel) -> Iterator[tuple[TuningProgram, Entry]]:
        for one in self.programs:
            if any(k.name == kernel.name for k in one.program.kernels):
                key = self._key(content_hash(kernel), one.numbers(kernel.name))
                entry = self.record.find(key)
                if entry is not None and any(entry.times.values()):
                    yield one, entry

    def _weight(self, entry: Entry, one: TuningProgram) -> float:
        decision = entry.decision(self.noise.configs)
        return one.count * decision.means[decision.best]

    def _key(self, kernel: str, numbers: Sequence[float] = ()) -> TuningKey:
        return TuningKey(kernel, self.device.model, self.device.compiler, tuple(numbers))
