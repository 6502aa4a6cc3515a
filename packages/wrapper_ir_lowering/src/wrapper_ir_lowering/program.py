"""Lowers a program to its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import constant_alignment
from wrapper_ir.analysis.inputs import input_checks
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.rebinding import unknown_writers
from wrapper_ir.analysis.references import called_operators, launched_kernels
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.group_ranks import group_ranks
from wrapper_ir.verifier import require_signature
from wrapper_ir.verifier.allowed_operators import check_operators
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_lowering.constants import HoistedWindows, reads_files, shared_bytes
from wrapper_ir_lowering.options import LoweringOptions
from wrapper_ir_lowering.persistent import plan_persistent, plan_windows
from wrapper_ir_lowering.plan import Plan
from wrapper_ir_lowering.replay import plan_replay
from wrapper_ir_lowering.rules.checks import check_arguments, prologue
from wrapper_ir_lowering.rules.rebinding import check_constants, check_rebound
from wrapper_ir_lowering.rules.table import steps_of
from wrapper_ir_lowering.state import FunctionState, ProgramState, stream_device
from wrapper_ir_lowering.steps import FunctionPlan, Origin, Step, Stream


def lower(
    artifact: Artifact, options: LoweringOptions | None = None, analyses: Analyses | None = None
) -> Plan:
    """Returns the plan of an artifact's program, with the run-time checks that its proofs leave open.

    `analyses` is the program's memo, if the caller has one. The program must be valid (`wrapper_ir.verify`).
    Raises VerificationError (WIR1nn) if the signature does not fit the program. Raises NotSupportedError
    (WIR91n, WIR224) for features that no target supports, LoweringError (WIR24n) for errors that a verifier
    would have reported.
    """
    options = options or LoweringOptions()
    memo = Analyses.of(artifact.program, analyses)
    require_signature(artifact, memo)
    check_operators(artifact.program, options.operators)
    artifact = replace(artifact, program=insert_checks(memo.program, options.guarded, memo))
    return _Lowering(artifact, options, memo.after(artifact.program)).plan()


class _Lowering:
    """Lowers the functions of one program, callees when they are first called."""

    def __init__(self, artifact: Artifact, options: LoweringOptions, analyses: Analyses) -> None:
        self._artifact = artifact
        self._options = options
        self._analyses = analyses
        self._windows = HoistedWindows(analyses)
        self._plans: dict[str, FunctionPlan | None] = {}
        """By name; None for a function that is being lowered."""
        program = artifact.program
        self._state = ProgramState(
            program=program,
            analyses=analyses,
            options=options,
            checks=input_checks(program, artifact.signature, options.guarded, analyses),
            constants=analyses.constant_values,
            ranks=group_ranks(artifact),
            plan_of=self._plan_of,
        )

    def plan(self) -> Plan:
        program, analyses = self._artifact.program, self._analyses
        hoisted = self._options.hoist_windows
        self._numbers = {f.name: self._windows.add(f) if hoisted else {} for f in program.functions}
        for function in program.functions:
            for name in ir.callees_first(function.name, analyses.functions, self._plans.__contains__):
                self._function(analyses.functions[name])
        functions = tuple(self._function(f) for f in program.functions)
        launched, operators = analyses.get(launched_kernels), analyses.get(called_operators)
        return Plan(
            artifact=self._artifact,
            analyses=analyses,
            functions=functions,
            bytes=shared_bytes(program),
            windows=tuple(self._windows.windows),
            streams=_streams(program),
            kernels=tuple(k for k in program.kernels if k.name in launched),
            operators=tuple(e for e in program.externs if e.name in operators),
            constant_alignment=analyses.get(constant_alignment),
            reads_files=reads_files(program),
        )

    def _plan_of(self, name: str) -> FunctionPlan | None:
        """Returns the plan of a called function; None for an unknown function, or one that calls itself."""
        function = self._analyses.functions.get(name)
        if function is None or (name in self._plans and self._plans[name] is None):
            return None
        return self._function(function)

    def _function(self, function: ir.Function) -> FunctionPlan:
        plan = self._plans.get(function.name)
        if plan is not None:
            return plan
        self._plans[function.name] = None
        is_main = function is self._artifact.program.main
        windows = self._numbers[function.name]
        state = FunctionState(self._state, function, windows, is_main)
        for param in function.params:
            state.define(param.value)
        if is_main and self._options.persistent_buffers:
            state.persistent = plan_persistent(function, self._artifact.program.target.device)
        elif is_main and self._options.keep_windows:
            state.persistent = plan_windows(function, self._artifact.program.target.device)
        lowered = self._plans[function.name] = FunctionPlan(
            function=function,
            steps=tuple(_steps(state)),
            is_main=is_main,
            windows=windows,
            persistent=state.persistent,
            replay=plan_replay(function, self._analyses),
        )
        return lowered


def _steps(state: FunctionState) -> Iterator[Step]:
    if state.is_main:
        yield from prologue(state)
        yield from check_constants(state)
    has_unknown = state.program.analyses.get(unknown_writers) is not None
    for position, op in enumerate(state.function.body):
        state.at = Origin(op, position)
        yield from steps_of(op, state)
        if has_unknown:
            yield from check_rebound(op, state)
        yield from check_arguments(position, state)


def _streams(program: ir.Program) -> tuple[Stream, ...]:
    """The streams of all functions besides the current ones, in order of first use."""
    streams: dict[Stream, None] = {}
    for function in program.functions:
        for op in function.body:
            number: int = getattr(op, "stream", 0)  # ops that queue work have one
            if number:
                streams[Stream(stream_device(op), number)] = None
    return tuple(streams)
