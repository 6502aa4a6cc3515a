"""A program as linear plans of steps, the input of emitters."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir_lowering.steps import FunctionPlan, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantBytes:
    """Bytes that several constants are windows of: `nbytes` of the data named `name`.

    `constant` is one of them; it determines the device, and whether they are written.
    """

    name: str
    nbytes: int
    constant: ir.Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantWindow:
    """A window of a constant, or of an earlier window, that is created once.

    `offset` counts elements, or bytes with `in_bytes`. Equal windows of all functions are merged; `result` is
    the first one's name.
    """

    result: ir.Value[ir.TensorType]
    source: ir.Value[ir.Type] | int
    """A constant, or the number of an earlier window."""
    offset: int
    in_bytes: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A program's plan.

    `artifact` is the lowered one, with the run-time checks that its proofs leave open. `functions` starts
    with `main`. `bytes` and `windows` are created when the program is loaded, with the program's constants in
    between. `streams` lists those besides the current ones, `kernels` the launched ones, and `operators` the
    called ones.
    """

    artifact: Artifact
    analyses: Analyses
    functions: tuple[FunctionPlan, ...]
    bytes: tuple[ConstantBytes, ...]
    windows: tuple[ConstantWindow, ...]
    streams: tuple[Stream, ...]
    kernels: tuple[ir.KernelDef, ...]
    operators: tuple[ir.ExternDef, ...]
    constant_alignment: int
    reads_files: bool
    """True if calls read constants directly from a file."""

    @property
    def program(self) -> ir.Program:
        """The program."""
        return self.artifact.program

    @property
    def main(self) -> FunctionPlan:
        """The plan of `main`."""
        return self.functions[0]
