"""Sides of the memory benchmarks: planned programs, and Inductor's generated code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import py_wrapper
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline


class Planned:
    """An emitter that keeps the program of each graph that it gets, and the plan that it runs."""

    name = "planned"

    def __init__(self) -> None:
        self.before: list[ir.Program] = []
        self.after: list[ir.Program] = []

    def emit(self, artifact: Artifact) -> str:
        """The Python source."""
        return py_wrapper.emit(artifact).source

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """As Python."""
        return py_wrapper.write(artifact, folder)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """Emitted Python of the planned program."""
        self.before.append(artifact.program)
        self.after.append(run_pipeline(artifact.program, MEMORY_PASSES, verify=False))
        return py_wrapper.compile(dataclasses.replace(artifact, program=self.after[-1]))


def allocations(program: ir.Program) -> int:
    """Counts the allocations of a program, including branches and callees, without those inside operators."""
    return sum(isinstance(op, ir.AllocStorage) for op in program.ops)


def allocations_in(codes: Iterable[str]) -> int:
    """Counts the allocations in a wrapper of Inductor."""
    return sum(line.count("= empty_strided_") for code in codes for line in code.splitlines())
