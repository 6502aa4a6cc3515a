"""A program under test: an artifact, a machine, and inputs that are the same in every run."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Int, Number
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, KeptState, Step, example_inputs, keep_state
from wrapper_ir_tools.debugger.input_files import read_inputs
from wrapper_ir_tools.debugger.random_calls import Draw, RandomCalls

# Any in this file: the machine's tensors, numbers and handles
Run = Generator[Step[Any], None, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChoice:
    """Selects the inputs: `values`, or generated from the parameters' types with `seed` and `symbols`.

    Tensors of a safetensors `file` replace generated ones.
    """

    seed: int = 0
    symbols: Mapping[str, Number] = field(default_factory=dict)
    file: Path | None = None
    values: Sequence[object] | None = None


def chosen_inputs(program: ir.Program, machine: Machine[Any], choice: InputChoice) -> list[Any]:
    """Returns flat arguments of `main`; raises the errors of `example_inputs` and `read_inputs`."""
    if choice.values is not None:
        return [machine.clone(x) if machine.is_tensor(x) else x for x in choice.values]
    if choice.file is not None:
        return read_inputs(program, machine, choice.file, choice.seed, choice.symbols)
    return example_inputs(program, machine, choice.seed, choice.symbols)


@dataclass(frozen=True, slots=True)
class Kept:
    """A state of a run, and the number of random draws before it."""

    state: KeptState[Any]
    draws: int


class Subject:
    """An artifact on a machine, with inputs.

    Each run starts from the same inputs and state. Random operators draw once: later runs reuse the draws of
    the first one (`draws`, which several subjects may share). Only one run may be active at a time. Raises
    DebugError WIR952 if the machine lacks a device of the program.
    """

    def __init__(
        self,
        artifact: Artifact,
        machine: Machine[Any],
        inputs: InputChoice | None = None,
        options: InterpOptions | None = None,
        draws: list[Draw] | None = None,
    ) -> None:
        _require_devices(artifact.program, machine)
        self.artifact = artifact
        self.machine = machine
        self.inputs = inputs or InputChoice()
        self.draws: list[Draw] = [] if draws is None else draws
        self._calls = RandomCalls(machine, self.draws)
        self.interpreter = Interpreter(
            artifact, machine, replace(options or InterpOptions(), call=self._calls)
        )
        self.program = self.interpreter.artifact.program
        """The program that runs: the artifact's, with run-time checks."""
        self.analyses = Analyses(self.program)

    def run(self, start: Kept | None = None) -> Run:
        """Runs from the beginning, or from a kept state, yielding before every op."""
        origin = start or self._origin
        self._calls.at = origin.draws
        return (yield from self.interpreter.resume(origin.state))

    @cached_property
    def _origin(self) -> Kept:
        run = self.interpreter.steps(chosen_inputs(self.program, self.machine, self.inputs))
        self._calls.at = 0
        origin = self.keep(next(run))
        run.close()
        return origin

    def keep(self, step: Step[Any]) -> Kept:
        """Captures the state before the op of `step`, in `main`; raises ExecutionError WIR951."""
        return Kept(keep_state(step.frame, step.position), self._calls.at)


def _require_devices(program: ir.Program, machine: Machine[Any]) -> None:
    """Raises DebugError WIR952 for a device that the machine cannot allocate on."""
    values = [c.value for c in program.constants]
    for function in program.functions:
        values += [p.value for p in function.params]
        values += [v for op in function.body for v in ir.results(op)]
    devices: dict[ir.Device, None] = {}
    for value in values:
        device = ir.device_of(value)
        if device is not None and device.type != ir.CPU.type:
            devices[device] = None
    for device in devices:
        try:
            machine.empty_storage(ir.StorageType(Int(1), device), 1, False)
        # each library raises a different class
        except Exception as error:
            message = str(error).strip().partition("\n")[0]
            raise DebugError(
                "WIR952",
                f"machine {machine.name!r} has no {device}, which the program uses: {message}",
                hint="run it where there is one, or move the program: `wir opt --pass move-device{...}`",
            ) from error
