"""Programs with all memory passes, and the ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from py_wrapper import PyOptions
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline
from wrapper_ir_runtime.interp import InterpOptions, Interpreter

_POISON = 0x7B  # initial content of slots and of the interpreter's memory: a read of it shows in the results


def planned(artifact: Artifact, passes: str = MEMORY_PASSES) -> Artifact:
    """Returns the artifact after all memory passes, each verified and compared with its input."""
    return replace(artifact, program=run_pipeline(artifact.program, passes))


def slot_count(artifact: Artifact) -> int:
    """Counts the slots of the program."""
    return sum(isinstance(op, ir.Slot) for op in artifact.program.ops)


def interpreter(artifact: Artifact) -> Interpreter[torch.Tensor]:
    """The interpreter over torch, with poisoned memory."""
    return Interpreter(artifact, py_wrapper.TORCH_MACHINE, InterpOptions(poison=_POISON))


def _poisoned(artifact: Artifact) -> CompiledProgram:
    return py_wrapper.compile(artifact, PyOptions(poison=_POISON))


def _persistent(artifact: Artifact) -> CompiledProgram:
    return py_wrapper.compile(artifact, PyOptions(persistent_buffers=True))


def _persistent_graph(artifact: Artifact) -> CompiledProgram:
    return fx_converter.compile(artifact, FxOptions(persistent_buffers=True))


WAYS: Mapping[str, Callable[[Artifact], CompiledProgram]] = {
    "interpreter, poisoned": interpreter,
    "Python, poisoned": _poisoned,
    "Python, persistent buffers": _persistent,
    "FX": fx_converter.compile,
    "FX, persistent buffers": _persistent_graph,
}
"""Ways to run a planned program without a build."""
