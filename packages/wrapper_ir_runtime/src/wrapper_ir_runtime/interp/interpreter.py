"""Public interface of the interpreter: an artifact that can be called or executed step by step."""

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
from wrapper_ir_runtime.interp.engine import Results, Step, activate, execute
from wrapper_ir_runtime.interp.frame import Content, FunctionInfo, Session
from wrapper_ir_runtime.interp.memory import MemoryMeter
from wrapper_ir_runtime.interp.options import InterpOptions, MemoryReport
from wrapper_ir_runtime.interp.states import KeptState, restore_frame
from wrapper_ir_runtime.kernels import load_kernels

T = TypeVar("T")


class Interpreter(Generic[T]):
    """Executes one artifact's program with the meaning that the IR defines.

    Mutable constants keep their content across calls. An interpreter must not be used by two threads
    concurrently.

    Raises VerificationError (WIR1nn) if the signature does not match the program; input checks take names
    from it.
    """

    def __init__(
        self, program: Artifact | ir.Program, machine: Machine[T], options: InterpOptions | None = None
    ) -> None:
        self.machine: Machine[T] = machine
        self.options = options or InterpOptions()
        analyses = Analyses(program if isinstance(program, ir.Program) else program.program)
        artifact = bare_artifact(program, analyses=analyses) if isinstance(program, ir.Program) else program
        checked = insert_checks(artifact.program, self.options.guarded, analyses)
        self.artifact = replace(artifact, program=checked)
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
        """Groups whose processes have not yet confirmed that they run the same program."""
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
        """Tensors of the constants. Mutable ones contain the program's state."""
        return self._constants

    @property
    def memory(self) -> MemoryReport:
        """Storages of the last run."""
        return self._meter.report()

    def steps(self, args: list[Content]) -> Generator[Step[T], None, Results]:
        """Runs `main` on flat arguments, yielding before every op, those of callees included.

        Empties `args`. The generator returns the results. Raises ExecutionError (WIR92n), and WIR936 if the
        artifact belongs to another rank. Raises NotSupportedError WIR915 if the process does not belong to a
        process group of the program, and ArtifactError WIR713 if a memory-mapped file of constants was
        written after loading.
        """
        session = self._session()
        contents = list(args)
        args.clear()
        self._check_inputs(contents)
        return (yield from activate(session, self.artifact.program.main.name, contents, {}))

    def resume(self, state: KeptState[T]) -> Generator[Step[T], None, Results]:
        """Runs the rest of `main` from a state that `keep_state` kept of a run of this interpreter, as
        `steps` does.

        The state can be reused. Raises the errors of `steps`.
        """
        return (yield from execute(restore_frame(self._session(), state), state.position))

    def _session(self) -> Session[T]:
        """Creates the state of one run; raises the errors of `steps` that precede the ops."""
        check_files(self._files)
        self._meter = MemoryMeter()
        for group in self._groups:  # before any op: other processes may wait for the first one
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

    def _check_inputs(self, contents: Sequence[Content]) -> None:
        """Checks arguments of `main` whose descriptions have no unknown symbols."""
        params = self.artifact.program.main.params
        if len(contents) == len(params):  # otherwise entering `main` raises
            by_value = {param.value: arg for param, arg in zip(params, contents)}
            entry = self._checks.entry
            check_inputs(self.machine.caller, [want for _, want in entry], [by_value[v] for v, _ in entry])
            storages = self._checks.storages
            check_storages(
                self.machine.caller, [want for _, want in storages], [by_value[v] for v, _ in storages]
            )

    def boxed(self, args: list[Content]) -> Results:
        """Runs `main` on flat arguments to its end; empties `args`."""
        run = self.steps(args)
        while True:
            try:
                next(run)
            except StopIteration as done:
                results: Results = done.value
                return results

    def __call__(self, *args: object, **kwargs: object) -> Any:  # Any: the model's own results
        """Calls the program with the model's signature. Raises the errors of `steps`."""
        return self._forward(*args, **kwargs)

    @cached_property
    def _forward(self) -> CompiledProgram:
        """Created at the first call, since the boxed form needs none of the model's classes."""
        return signature_call(self.artifact.signature, self.boxed, self.machine.caller)


def _check_window(constant: ir.Constant, data: TensorData) -> None:
    """Raises ExecutionError WIR929 if a shared storage ends before the constant."""
    type = constant.value.type
    need = int(evaluate(ir.extent_bytes(type), {})) if isinstance(type, ir.TensorType) else 0
    if need and constant.offset + need > data.nbytes:
        raise ExecutionError(
            "WIR929",
            f"constant %{constant.value.name} needs {constant.offset + need} bytes, "
            f"but there are {data.nbytes}",
        )


def run(
    program: Artifact | ir.Program,
    args: list[Content],
    machine: Machine[T],
    options: InterpOptions | None = None,
) -> Results:
    """Runs `main` once on flat arguments, a list that is emptied. Mutable constants start from their stored
    data.

    Raises ExecutionError (WIR92n), PluginError for kernels without a runtime, and NotSupportedError (WIR91n).
    """
    return Interpreter(program, machine, options).boxed(args)


def steps(
    program: Artifact | ir.Program,
    args: list[Content],
    machine: Machine[T],
    options: InterpOptions | None = None,
) -> Generator[Step[T], None, Results]:
    """Runs as `run` does, and yields a `Step` before every op."""
    return Interpreter(program, machine, options).steps(args)


def call(
    artifact: Artifact,
    machine: Machine[T],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    options: InterpOptions | None = None,
) -> Any:  # Any: the model's own results
    """Runs the artifact once on the model's arguments; returns the model's results."""
    return Interpreter(artifact, machine, options)(*args, **(kwargs or {}))
