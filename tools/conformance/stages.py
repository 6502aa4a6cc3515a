"""The stages of a case on our side: what is checked in each, and what failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

import torch

import inductor_frontend
import py_wrapper
import wrapper_ir
from tools.conformance.cases import Call, CaseId
from tools.conformance.compare import UNDEFINED_VALUES, Mismatch, Observed, assert_same, observe
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import WirError
from wrapper_ir.interp import InterpOptions
from wrapper_ir.interp import call as interpret

__all__ = ["CRASH", "Failure", "Stage", "check_case"]

CRASH = "crash"
"""The code of a failure that ended the process, or for which it had to be ended."""

T = TypeVar("T")

_POISON = 0x7B  # uninitialised memory in the interpreter: a read of it shows in the results
_CALLS = 2  # of emitted code: the second sees what the first left behind


class Stage(StrEnum):
    """One thing that a case goes through, in order. Those from VERIFY to PYTHON need the program that CAPTURE makes,
    INTERPRETER and PYTHON a valid one; BACKEND is `torch.compile(backend="wrapper_ir")`."""

    CAPTURE = "capture"
    VERIFY = "verify"
    TEXT = "text"
    JSON = "json"
    INTERPRETER = "interpreter"
    PYTHON = "python"
    BACKEND = "backend"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a case fails in a stage. `code` is a stable error code, CRASH, or the exception's class name."""

    stage: Stage
    code: str
    reason: str

    def blocks(self, later: Stage) -> bool:
        """Whether the failure keeps a later stage from running."""
        order = list(Stage)
        if order.index(later) <= order.index(self.stage):
            return False
        if self.code == CRASH:
            return True
        if self.stage is Stage.CAPTURE:
            return later is not Stage.BACKEND
        return self.stage is Stage.VERIFY and later in (Stage.INTERPRETER, Stage.PYTHON)


class _Steps:
    """Runs stages, keeps what failed."""

    def __init__(self, announce: Callable[[Stage], None]) -> None:
        self.announce = announce
        self.failures: list[Failure] = []

    def attempt(self, stage: Stage, run: Callable[[], T]) -> T | None:
        """What `run` returns, or None where it fails."""
        self.announce(stage)
        try:
            return run()
        except Exception as error:
            code = error.code if isinstance(error, WirError) else type(error).__name__
            self.failures.append(Failure(stage, code, " ".join(str(error).split())))
            return None

    def blocked(self, stage: Stage) -> bool:
        """Whether an earlier failure keeps the stage from running."""
        return any(failure.blocks(stage) for failure in self.failures)


def check_case(case: CaseId, call: Call, announce: Callable[[Stage], None]) -> list[Failure]:
    """Runs a case through all stages, each announced before it starts. Raises what eager raises."""
    check = _Check(case.seed, call, observe(call, call.function, case.seed), case.op not in UNDEFINED_VALUES)
    steps = _Steps(announce)
    artifact = steps.attempt(Stage.CAPTURE, check.capture)
    if artifact is not None:
        for stage, run in check.stages.items():
            if not steps.blocked(stage):
                steps.attempt(stage, partial(run, artifact))
    steps.attempt(Stage.BACKEND, check.backend)
    return steps.failures


@dataclass(frozen=True, slots=True)
class _Check:
    """What each stage does. `want` is what eager gives; `values` says whether its elements are defined."""

    seed: int
    call: Call
    want: Observed
    values: bool

    @property
    def stages(self) -> dict[Stage, Callable[[Artifact], None]]:
        """What is done with a captured program, in order."""
        return {
            Stage.VERIFY: self.verify,
            Stage.TEXT: self.text,
            Stage.JSON: self.json,
            Stage.INTERPRETER: self.interpreter,
            Stage.PYTHON: self.python,
        }

    def capture(self) -> Artifact:
        options = inductor_frontend.CaptureOptions(verify=False)
        return inductor_frontend.capture(self.call.function, self.call.inputs, options=options)

    def verify(self, artifact: Artifact) -> None:
        wrapper_ir.verify(artifact.program)

    def text(self, artifact: Artifact) -> None:
        text = wrapper_ir.print_program(artifact.program)
        if wrapper_ir.parse_program(text) != artifact.program:
            raise Mismatch("parse_program(print_program(program)) is another program")

    def json(self, artifact: Artifact) -> None:
        if wrapper_ir.from_json(wrapper_ir.to_json(artifact.program)) != artifact.program:
            raise Mismatch("from_json(to_json(program)) is another program")

    def interpreter(self, artifact: Artifact) -> None:
        options = InterpOptions(poison=_POISON)
        self._compare(lambda *inputs: interpret(artifact, py_wrapper.TORCH_MACHINE, inputs, {}, options))

    def python(self, artifact: Artifact) -> None:
        compiled = py_wrapper.compile(artifact)
        for _ in range(_CALLS):
            self._compare(compiled)

    def backend(self) -> None:
        torch._dynamo.reset()
        compiled = torch.compile(self.call.function, backend="wrapper_ir")
        for _ in range(_CALLS):
            self._compare(compiled)

    def _compare(self, run: Callable[..., object]) -> None:
        assert_same(observe(self.call, run, self.seed), self.want, self.call, values=self.values)
