"""The stages of a case on our side: their checks and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

import torch
from torch._inductor import config as inductor_config
from torch.utils import _pytree as pytree

import fx_converter
import py_wrapper
import wrapper_ir
from cpp_wrapper import CppEmitter, CppError, CppOptions
from fx_converter.kernels import KernelCalls
from tools.conformance.cases import Call, CaseId
from tools.conformance.collector import How
from tools.conformance.compare import UNDEFINED_VALUES, Mismatch, Observed, assert_same, is_random, observe
from tools.conformance.native_library import native_library
from tools.conformance.plans import WAYS, interpreter, planned, slot_count
from tools.conformance.programs import Kernels, Programs, Source, capture, collect
from tools.conformance.stock import stock_values
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError, WirError
from wrapper_ir.plugins.protocols import CompiledProgram

CRASH = "crash"
"""The code of a failure that ended the process, or for which it had to be ended."""

REFUSED = "FE101"
"""Code of cases that torch.export cannot trace."""

T = TypeVar("T")

_LIBRARIES = CppEmitter(options=CppOptions(opt_level=0, precompile_after=0))
"""Options for the fastest build."""
_CALLS: Mapping[Kernels, int] = {
    Kernels.CPP: 2,  # calls of emitted code: the second sees the state after the first
    Kernels.TRITON: 1,  # interpreted kernels are slow
    Kernels.GPU: 2,
}


class Stage(StrEnum):
    """One stage of a case, in order.

    Those from VERIFY to FX need the programs of CAPTURE, INTERPRETER, PYTHON and FX valid ones. BACKEND is
    `torch.compile(backend="wrapper_ir")` as users call it.
    """

    CAPTURE = "capture"
    VERIFY = "verify"
    TEXT = "text"
    JSON = "json"
    INTERPRETER = "interpreter"
    PYTHON = "python"
    FX = "fx"
    BACKEND = "backend"
    CPP = "cpp"
    """Built and loaded as a C++ library: in a separate run, `cpp.py`."""
    NATIVE = "native"
    """Built and loaded as a native library: in a separate run, `native.py`."""
    PLANNED = "planned"
    """After all memory passes, in every engine: in a separate run, `planned.py`."""


_OWN_RUNS = (Stage.CPP, Stage.NATIVE, Stage.PLANNED)
STAGES: Mapping[Kernels, tuple[Stage, ...]] = {
    Kernels.CPP: tuple(stage for stage in Stage if stage not in _OWN_RUNS),
    Kernels.GPU: tuple(stage for stage in Stage if stage not in _OWN_RUNS),
    Kernels.TRITON: (Stage.CAPTURE, Stage.VERIFY, Stage.TEXT, Stage.JSON, Stage.PYTHON),
}
"""The stages of a case, in order."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case fails in a stage. `code` is a stable error code, CRASH, or the exception's class name."""

    stage: Stage
    code: str
    reason: str

    def blocks(self, later: Stage) -> bool:
        """Returns whether the failure prevents a later stage."""
        order = list(Stage)
        if order.index(later) <= order.index(self.stage):
            return False
        if self.code == CRASH:
            return True
        if self.stage is Stage.CAPTURE:
            return later is not Stage.BACKEND
        runs = (Stage.INTERPRETER, Stage.PYTHON, Stage.FX, *_OWN_RUNS)
        return self.stage is Stage.VERIFY and later in runs


class _Steps:
    """Runs stages and collects failures."""

    def __init__(self, announce: Callable[[Stage], None]) -> None:
        self.announce = announce
        self.failures: list[Failure] = []

    def attempt(self, stage: Stage, run: Callable[[], T]) -> T | None:
        """Returns the result of `run`, or None if it fails."""
        self.announce(stage)
        try:
            return run()
        except Exception as error:
            code = error.code if isinstance(error, WirError | CppError) else type(error).__name__
            self.failures.append(Failure(stage, code, " ".join(str(error).split())))
            return None

    def blocked(self, stage: Stage) -> bool:
        """Returns whether an earlier failure prevents the stage."""
        return any(failure.blocks(stage) for failure in self.failures)


@dataclass(frozen=True, slots=True)
class Checked:
    """Outcome of a case: its failures, the source of its programs (None if there are none), the number of
    programs, and whether its values are random. For random values Inductor's own are the oracle.
    """

    failures: tuple[Failure, ...]
    source: Source | None
    programs: int
    random: bool
    kernels: int = 0
    """Number of kernels of the programs."""
    slots: int = 0
    """Number of slots after all memory passes, if PLANNED was requested and passed."""


def check_case(
    case: CaseId,
    call: Call,
    announce: Callable[[Stage], None],
    kernels: Kernels = Kernels.CPP,
    only: tuple[Stage, ...] | None = None,
) -> Checked:
    """Runs a case through all stages (of `only`, those with these kernels), each announced before it starts.
    Raises eager's exceptions.
    """
    stages = STAGES[kernels] if only is None else only
    steps = _Steps(announce)
    with _captured(case, call, steps, kernels, stages) as (check, programs):
        if programs is not None:
            for stage, run in check.stages.items():
                if not steps.blocked(stage):
                    steps.attempt(stage, partial(run, programs))
        if Stage.BACKEND in stages:
            steps.attempt(Stage.BACKEND, check.backend)
    failures = tuple(steps.failures)
    if programs is None:
        return Checked(failures, None, 0, check.random)
    kernel_count = sum(len(artifact.program.kernels) for artifact in programs.artifacts)
    slots = _slots(programs) if Stage.PLANNED in stages and not failures else 0
    return Checked(failures, programs.source, len(programs.artifacts), check.random, kernel_count, slots)


def build_libraries(cases: Iterable[tuple[CaseId, Call]]) -> None:
    """Builds the libraries of many cases together, for the stage CPP to find.

    Raises the exceptions of `cpp_wrapper.build`.
    """
    artifacts: list[Artifact] = []
    for case, call in cases:
        steps = _Steps(lambda stage: None)
        with (
            suppress(Exception),
            _captured(case, call, steps, Kernels.CPP, (Stage.CAPTURE,)) as (_, programs),
        ):
            artifacts += () if programs is None else programs.artifacts
    _LIBRARIES.build_together(artifacts)


@contextmanager
def _captured(
    case: CaseId, call: Call, steps: _Steps, kernels: Kernels, chosen: tuple[Stage, ...]
) -> Iterator[tuple[_Check, Programs | None]]:
    """Yields the case's programs while the Inductor options of their capture are active."""
    eager = observe(call, call.function, case.seed)
    random = is_random(case, call, eager)
    # Random values come from Inductor's own generators, as in its default configuration. All other values are
    # eager's, including those from a random operator inside, which uses eager's generators. Interpreted
    # Triton kernels use eager's, too: Inductor has none to compare with, and their generators differ from
    # those in C++.
    by_inductor = random and kernels is not Kernels.TRITON
    with inductor_config.patch(fallback_random=not by_inductor):
        want = _stock_or(eager, call, case.seed) if by_inductor else eager
        check = _Check(case.seed, call, want, case.op not in UNDEFINED_VALUES, kernels, chosen, random)
        yield check, _programs(check, steps)


def _stock_or(eager: Observed, call: Call, seed: int) -> Observed:
    """Returns Inductor's values, or eager's if Inductor returns something unrelated, or nothing."""
    try:
        want = stock_values(call, seed)
        assert_same(want, eager, call, values=False)
    except Exception:  # Inductor's: its verdict on the case records it
        return eager
    return want


def _programs(check: _Check, steps: _Steps) -> Programs | None:
    """The case's programs: the exported one, or where export refuses, those of torch.compile's graphs; None
    for none, which is a failure.
    """
    programs = steps.attempt(Stage.CAPTURE, partial(capture, check.call, check.kernels))
    if programs is not None or steps.failures[-1].code != REFUSED:
        return programs
    refusal = steps.failures.pop()
    how = interpreter if Stage.INTERPRETER in check.chosen else py_wrapper.compile
    collected = partial(collect, check.call, check.seed, how, check.kernels)
    programs = steps.attempt(Stage.CAPTURE, collected)
    if programs is not None and not programs.artifacts:
        steps.failures.append(refusal)
        return None
    return programs


def _with_plan(way: How, artifact: Artifact) -> CompiledProgram:
    return way(planned(artifact))


def _planned_library(artifact: Artifact) -> CompiledProgram:
    try:
        return _LIBRARIES.compile(planned(artifact))
    except NotSupportedError:
        return _LIBRARIES.compile(planned(artifact, "reuse-in-place,plan-memory,reuse-for-results"))


def _slots(programs: Programs) -> int:
    return sum(slot_count(planned(artifact)) for artifact in programs.artifacts)


def _graph(form: KernelCalls, artifact: Artifact) -> CompiledProgram:
    """The artifact as a graph, which has to be whole."""
    options = fx_converter.FxOptions(kernel_calls=form)
    module = fx_converter.convert(artifact, options)
    module.graph.lint()
    if bare := [node.name for node in module.graph.nodes if "val" not in node.meta]:
        raise Mismatch(f"nodes without a value: {bare}")
    return fx_converter.compile(artifact, options)


@dataclass(frozen=True, slots=True)
class _Check:
    """The checks of each stage.

    `want` is the right result; `values` states whether its elements are defined.
    """

    seed: int
    call: Call
    want: Observed
    values: bool
    kernels: Kernels
    chosen: tuple[Stage, ...]
    random: bool

    @property
    def stages(self) -> dict[Stage, Callable[[Programs], None]]:
        """Yields the stages on captured programs, in order."""
        functions: dict[Stage, Callable[[Programs], None]] = {
            Stage.VERIFY: self.verify,
            Stage.TEXT: self.text,
            Stage.JSON: self.json,
            Stage.INTERPRETER: self.interpreter,
            Stage.PYTHON: self.python,
            Stage.FX: self.fx,
            Stage.CPP: self.cpp,
            Stage.NATIVE: self.native,
            Stage.PLANNED: self.planned,
        }
        return {stage: run for stage, run in functions.items() if stage in self.chosen}

    def verify(self, programs: Programs) -> None:
        for artifact in programs.artifacts:
            wrapper_ir.verify(artifact.program)

    def text(self, programs: Programs) -> None:
        for artifact in programs.artifacts:
            if wrapper_ir.parse_program(wrapper_ir.print_program(artifact.program)) != artifact.program:
                raise Mismatch("parse_program(print_program(program)) is another program")

    def json(self, programs: Programs) -> None:
        for artifact in programs.artifacts:
            if wrapper_ir.from_json(wrapper_ir.to_json(artifact.program)) != artifact.program:
                raise Mismatch("from_json(to_json(program)) is another program")

    def interpreter(self, programs: Programs) -> None:
        self._compare(programs.runner(interpreter))

    def python(self, programs: Programs) -> None:
        run = programs.runner(py_wrapper.compile)
        for _ in range(_CALLS[self.kernels]):
            self._compare(run)

    def fx(self, programs: Programs) -> None:
        run = programs.runner(partial(_graph, "direct"))
        for _ in range(_CALLS[self.kernels]):
            self._compare(run)
        self._compare(programs.runner(partial(_graph, "hop")))

    def cpp(self, programs: Programs) -> None:
        run = programs.runner(_LIBRARIES.compile)
        for _ in range(_CALLS[self.kernels]):
            self._compare(run)

    def native(self, programs: Programs) -> None:
        """Compares results without their structure: the loader knows no types of torch.

        Vectors of decompositions are compared without their signs, which the native runtime chooses itself.
        """
        run = programs.runner(native_library)
        flat = replace(self, want=Observed(self._leaves(self.want.results), self.want.inputs))
        for _ in range(_CALLS[self.kernels]):
            flat._compare(lambda *args: self._leaves(run(*args)))

    def _leaves(self, results: object) -> list[object]:
        leaves = pytree.tree_leaves(results)
        if not self.call.has_vectors:
            return leaves
        return [leaf.abs() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def planned(self, programs: Programs) -> None:
        """Checks that each engine returns the bits of emitted Python without a plan.

        C++ is built for programs with slots, without `out=` variants that C++ cannot call.
        """
        plain = observe(self.call, programs.runner(py_wrapper.compile), self.seed)
        exact = replace(self, want=plain, call=replace(self.call, tolerances=(0.0, 0.0)))
        ways: list[How] = [partial(_with_plan, way) for way in WAYS.values()]
        for way in (*ways, _planned_library) if _slots(programs) else ways:
            run = programs.runner(way)
            for _ in range(_CALLS[self.kernels]):
                exact._compare(run)

    def backend(self) -> None:
        torch._dynamo.reset()
        compiled = torch.compile(self.call.function, backend="wrapper_ir")
        for _ in range(_CALLS[self.kernels]):
            self._compare(compiled)

    def _compare(self, run: Callable[..., object]) -> None:
        assert_same(observe(self.call, run, self.seed), self.want, self.call, values=self.values)
