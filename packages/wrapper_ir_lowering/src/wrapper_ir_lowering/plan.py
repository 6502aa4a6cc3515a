"""A program as linear plans of steps: what an emitter spells."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.ir.kernels import KernelDef
from wrapper_ir.ir.program import Constant, Program
from wrapper_ir.ir.schemas import ExternDef
from wrapper_ir.ir.types import TensorType, Type
from wrapper_ir.ir.values import Value
from wrapper_ir_lowering.steps import FunctionPlan, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantBytes:
    """Bytes that several constants are windows of: `nbytes` of the data called `name`. `constant` is one of them, which says
    device and whether they are written."""

    name: str
    nbytes: int
    constant: Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantWindow:
    """A window of a constant, or of an earlier window, that is made once. `offset` counts elements, or bytes with
    `in_bytes`. Equal windows of all functions are one; `result` is the first one's name."""

    result: Value[TensorType]
    source: Value[Type] | int
    """A constant, or the number of an earlier window."""
    offset: int
    in_bytes: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A program's plan. `artifact` is the one that it was lowered from, with the run-time checks that its proofs leave open.

    `functions` are those of the program, `main` first. `bytes` and `windows` are made when the program is loaded, with the
    program's constants between them. `streams` are those besides the current ones, `kernels` those that are launched, and
    `operators` those that are called.
    """

    artifact: Artifact
    analyses: Analyses
    functions: tuple[FunctionPlan, ...]
    bytes: tuple[ConstantBytes, ...]
    windows: tuple[ConstantWindow, ...]
    streams: tuple[Stream, ...]
    kernels: tuple[KernelDef, ...]
    operators: tuple[ExternDef, ...]
    constant_alignment: int
    reads_files: bool
    """Whether calls read constants where they lie in a file."""

    @property
    def program(self) -> Program:
        """The program."""
        return self.artifact.program

    @property
    def main(self) -> FunctionPlan:
        """The plan of `main`."""
        return self.functions[0]
