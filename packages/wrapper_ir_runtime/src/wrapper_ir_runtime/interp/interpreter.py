"""The interpreter's public face: a loaded artifact that can be called or stepped through."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import constant_alignment
from wrapper_ir.analysis.groups import groups_of, sharing_groups
from wrapper_ir.analysis.inputs import input_checks
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.references import launched_kernels
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact.agreement import manifest
from wrapper_ir.artifact.group_ranks import group_ranks
from wrapper_ir.builder import tensor_type
from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import evaluate
from wrapper_ir.plugins.protocols import CompiledProgram, Machine
from wrapper_ir.support.files import check_files
from wrapper_ir.verifier import require_signature
from wrapper_ir.verifier.allowed_operators import check_operators
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_runtime.binding import signature_call
from wrapper_ir_runtime.inputs import check_inputs, check_storages
from wrapper_ir_runtime.interp.engine import Step, activate, execute
from wrapper_ir_runtime.interp.frame import FunctionInfo, Session
from wrapper_ir_runtime.interp.memory import MemoryMeter
from wrapper_ir_runtime.interp.options import InterpOptions, MemoryReport
from wrapper_ir_runtime.interp.states import KeptState, restore_frame
from wrapper_ir_runtime.kernels import load_kernels

T = TypeVar("T")
Results = tuple[Any, ...]  # Any: the machine's tensors, numbers, handles


class Interpreter(Generic[T]):
    """Executes one artifact's program with the meaning that the IR defines.

    Mutable constants keep their content from call to call. Not for use by two threads at once.

    Raises VerificationError (WIR1nn) for a signature that does not fit the program; checks of inputs take names from it.
    """

    def __init__(
        self, program: Artifact | ir.Program, machine: Machine[T], options: InterpOptions | None = None
    ) -> None:
        self.machine: Machine[T] = machine
        self.options = options or InterpOptions()
        analyses = Analyses(program if isinstance(program, ir.Program) else program.program)
        given = bare_artifact(program, analyses=analyses) if isinstance(program, ir.Program) else program
        checked = insert_checks(given.program, self.options.guarded, analyses)
        self.artifact = replace(given, program=checked)
        check_operators(self.artifact.program, self.options.operators)
        self._analyses = analyses.after(checked)
        require_signature(self.artifact, self._analyses)
        self._alignment = self._analyses.get(constant_alignment)
        self._storages: dict[str, T] = {}
        """Bytes that constants share, by name."""
        self._constants = {c.value: self._constant(c) for c in self.artifact.program.constants}
        self._kernels = load_kernels(
            ir.needed(checked.kernels, self._analyses.get(launched_kernels)),
            self.artifact.program.target,
            self.options.find_runtime,
            self.artifact.binaries,
        )
        self._infos: dict[str, FunctionInfo] = {}
        self._groups = groups_of(self.artifact.program, self._analyses)
        self._ranks = {one.group: one for one in group_ranks(self.artifact)}
        self._sharing = sharing_groups(self.artifact.program, self._analyses)
        """Groups whose processes are still to be asked whether they run the same program."""
        self._files = self.artifact.mapped_files()
        self._checks = input_checks(
            self.artifact.program, self.artifact.signature, self.options.guarded, self._analyses
        )
        self._meter = MemoryMeter()

    def _constant(self, constant: ir.Constant) -> T:
        if constant.value.name in self.artifact.handles:
            handle: T = self.artifact.handles[constant.value.name]
            return handle
        data = self.artifact.constants.get(constant.data_name)
        if data is None:
            raise ExecutionError(
                "WIR929",
                f"there is no data for constant %{constant.value.name}",
                hint="run the artifact, not its text",
            )
        type = constant.value.type
        assert isinstance(type, ir.TensorType)
        if not constant.storage:
            return self.machine.constant(data, type, constant.mutable, self._alignment)
        whole = self._storages.get(constant.storage)
        if whole is None:
            flat = tensor_type(ir.DType.U8, [data.nbytes], device=type.device)
            whole = self.machine.constant(data, flat, constant.mutable, self._alignment)
            self._storages[constant.storage] = whole
        _check_window(constant, data)
        sizes, strides = ([int(evaluate(e, {})) for e in part] for part in (type.sizes, type.strides))
        return self.machine.view(whole, type, sizes, strides, constant.offset)

    @property
    def constants(self) -> Mapping[ir.Value, T]:
        """The constants' tensors; mutable ones hold the program's state."""
        return self._constants

    @property
    def memory(self) -> MemoryReport:
        """The storages of the last run."""
        return self._meter.report()

    # Any: inputs are the machine's tensors, numbers and handles
    def steps(self, args: list[Any]) -> Generator[Step[T], None, Results]:
        """Runs `main` on flat arguments, yielding before every op, those of callees included.

        Empties `args`. The generator returns the results. Raises ExecutionError (WIR92n), and NotSupportedError WIR915
        if the process does not belong to a process group that the program uses, WIR936 where the artifact is another rank's, and ArtifactError WIR713 where a mapped
        file of constants was written since it was loaded.
        """
        session = self._session()
        held = list(args)
        args.clear()
        self._check_inputs(held)
        return (yield from activate(session, self.artifact.program.main.name, held, {}))

    def resume(self, state: KeptState[T]) -> Generator[Step[T], None, Results]:
        """Runs what is left of `main` from a state that `keep_state` kept of a run of this interpreter, as `steps` does.
        The state can be used again. Raises what `steps` raises."""
        return (yield from execute(restore_frame(self._session(), state), state.position))

    def _session(self) -> Session[T]:
        """What one run needs; raises what `steps` raises before anything runs."""
        check_files(self._files)
        self._meter = MemoryMeter()
        for group in self._groups:  # before anything runs: other processes may wait for what comes first
            self.machine.check_group(group, self.artifact.program.target.device, self._ranks.get(group))
        if self._sharing:
            for group in self._sharing:
                self.machine.agree(group, manifest(self._analyses))
            self._sharing = ()
        return Session(
            artifact=self.artifact,
            machine=self.machine,
            options=self.options,
            analyses=self._analyses,
            constants=self._constants,
            kernels=self._kernels,
            infos=self._infos,
            meter=self._meter,
            layouts=self._checks.layouts,
        )

    def _check_inputs(self, held: Sequence[Any]) -> None:
        """Checks the arguments of `main` that need no symbol for it."""
        params = self.artifact.program.main.params
        if len(held) == len(params):  # otherwise entering `main` raises
            given = {param.value: arg for param, arg in zip(params, held)}
            entry = self._checks.entry
            check_inputs(self.machine.caller, [want for _, want in entry], [given[v] for v, _ in entry])
            storages = self._checks.storages
            check_storages(
                self.machine.caller, [want for _, want in storages], [given[v] for v, _ in storages]
            )

    def boxed(self, args: list[Any]) -> Results:
        """Runs `main` on flat arguments to the end; empties `args`."""
        run = self.steps(args)
        while True:
            try:
                next(run)
            except StopIteration as done:
                results: Results = done.value
                return results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it like the model. Raises what `steps` raises."""
        return self._forward(*args, **kwargs)

    @cached_property
    def _forward(self) -> CompiledProgram:
        """Looked up for the first call: the boxed form needs none of the model's classes."""
        return signature_call(self.artifact.signature, self.boxed, self.machine.caller)


def _check_window(constant: ir.Constant, data: TensorData) -> None:
    """Raises ExecutionError WIR929 where a shared storage ends before the constant."""
    type = constant.value.type
    need = int(evaluate(ir.extent_bytes(type), {})) if isinstance(type, ir.TensorType) else 0
    if need and constant.offset + need > data.nbytes:
        raise ExecutionError(
            "WIR929",
            f"constant %{constant.value.name} needs {constant.offset + need} bytes, but there are {data.nbytes}",
        )


def run(
    program: Artifact | ir.Program, args: list[Any], machine: Machine[T], options: InterpOptions | None = None
) -> Results:
    """Runs `main` once on flat arguments (a list, which is emptied); mutable constants start from their stored data.

    Raises ExecutionError (WIR92n), PluginError for kernels without a runtime, NotSupportedError (WIR91n).
    """
    return Interpreter(program, machine, options).boxed(args)


def steps(
    program: Artifact | ir.Program, args: list[Any], machine: Machine[T], options: InterpOptions | None = None
) -> Generator[Step[T], None, Results]:
    """`run`, op by op: yields a `Step` before every op."""
    return Interpreter(program, machine, options).steps(args)


def call(
    artifact: Artifact,
    machine: Machine[T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    options: InterpOptions | None = None,
) -> Any:  # Any: the model's own results
    """Runs the artifact once on the model's own arguments, giving the model's own result structure."""
    return Interpreter(artifact, machine, options)(*args, **(kwargs or {}))
