"""The interpreter's public face: a loaded artifact that can be called or stepped through."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.index import ProgramIndex
from wrapper_ir.interp.engine import Step, activate
from wrapper_ir.interp.frame import FunctionInfo, Session
from wrapper_ir.interp.memory import MemoryMeter
from wrapper_ir.interp.options import InterpOptions, MemoryReport
from wrapper_ir.kernels import KernelDef, needed
from wrapper_ir.ops import Launch
from wrapper_ir.program import Constant, Program
from wrapper_ir.protocols import CompiledProgram, Machine
from wrapper_ir.runtime.binding import signature_call
from wrapper_ir.runtime.kernels import load_kernels
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["Interpreter", "call", "run", "steps"]

T = TypeVar("T")
Results = tuple[Any, ...]  # Any: the machine's tensors, numbers, handles


class Interpreter(Generic[T]):
    """Executes one artifact's program with the meaning that the IR defines.

    Mutable constants keep their content from call to call. Not for use by two threads at once.
    """

    def __init__(
        self, program: Artifact | Program, machine: Machine[T], options: InterpOptions | None = None
    ) -> None:
        self.artifact = bare_artifact(program) if isinstance(program, Program) else program
        self.machine: Machine[T] = machine
        self.options = options or InterpOptions()
        self._index = ProgramIndex(self.artifact.program)
        self._constants = {c.value: self._constant(c) for c in self.artifact.program.constants}
        self._kernels = load_kernels(
            self._used_kernels(),
            self.artifact.program.target,
            self.options.find_runtime,
            self.artifact.binaries,
        )
        self._infos: dict[str, FunctionInfo] = {}
        self._groups = groups_of(self.artifact.program)
        self._meter = MemoryMeter()

    def _used_kernels(self) -> Sequence[KernelDef]:
        launched = {
            op.kernel for f in self.artifact.program.functions for op in f.body if isinstance(op, Launch)
        }
        return needed(self.artifact.program.kernels, launched)

    def _constant(self, constant: Constant) -> T:
        if constant.value.name in self.artifact.handles:
            handle: T = self.artifact.handles[constant.value.name]
            return handle
        data = self.artifact.constants.get(constant.value.name)
        if data is None:
            raise ExecutionError(
                "WIR929",
                f"there is no data for constant %{constant.value.name}",
                hint="run the artifact, not its text",
            )
        assert isinstance(constant.value.type, TensorType)
        return self.machine.constant(data, constant.value.type, constant.mutable)

    @property
    def constants(self) -> Mapping[Value, T]:
        """The constants' tensors; mutable ones hold the program's state."""
        return self._constants

    @property
    def memory(self) -> MemoryReport:
        """What the last run made."""
        return self._meter.report()

    # Any: inputs are the machine's tensors, numbers and handles
    def steps(self, args: list[Any]) -> Generator[Step[T], None, Results]:
        """Runs `main` on flat arguments, yielding before every op, those of callees included.

        Empties `args`. The generator returns the results. Raises ExecutionError (WIR92n), and NotSupportedError WIR915
        where the process does not belong to a process group that the program uses.
        """
        self._meter = MemoryMeter()
        for group in self._groups:  # before anything runs: other processes may wait for what comes first
            self.machine.check_group(group)
        session = Session(
            artifact=self.artifact,
            machine=self.machine,
            options=self.options,
            index=self._index,
            constants=self._constants,
            kernels=self._kernels,
            infos=self._infos,
            meter=self._meter,
        )
        held = list(args)
        args.clear()
        return (yield from activate(session, self.artifact.program.main.name, held, {}))

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
        """Calls it like the model."""
        return self._forward(*args, **kwargs)

    @cached_property
    def _forward(self) -> CompiledProgram:
        """Looked up for the first call: the boxed form needs none of the model's classes."""
        return signature_call(self.artifact.signature, self.boxed, self.machine.caller)


def run(
    program: Artifact | Program, args: list[Any], machine: Machine[T], options: InterpOptions | None = None
) -> Results:
    """Runs `main` once on flat arguments (a list, which is emptied); mutable constants start from their stored data.

    Raises ExecutionError (WIR92n), PluginError for kernels without a runtime, NotSupportedError (WIR91n).
    """
    return Interpreter(program, machine, options).boxed(args)


def steps(
    program: Artifact | Program, args: list[Any], machine: Machine[T], options: InterpOptions | None = None
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
