"""Splits the host time of a call through `torch.compile` by differences of whole calls.

Variants are calls without the program's work, without its launches, without its matmuls, and with persistent
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn

from py_wrapper import PyOptions, PythonEmitter
from tools.bench.timing import alternate
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram, LoadedKernel

PARTS = (
    "guards and autograd's wrappers",
    "launches",
    "matmuls",
    "allocations and views",
    "arguments, checks and other operators",
)
_MATMULS = ("mm", "addmm", "bmm", "baddbmm")
_nothing: Any = "".format
"""Accepts any arguments, at the cost of calling a C function."""
_ROUNDS, _CALLS = 15, 10

# Any in this file: models, their arguments and results.


@dataclass(frozen=True)
class _NoKernels:
    """A runtime whose kernels do nothing."""

    kind: str

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """A function that does nothing."""
        nothing: LoadedKernel = _nothing
        return nothing

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """The same for each."""
        return {kernel.name: self.load(kernel, target) for kernel in kernels}


@dataclass(frozen=True)
class _FirstResults(PythonEmitter):
    """Programs that return the results of their first call again."""

    name: str = field(default="first-results", init=False)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """See `Emitter`."""
        program = PythonEmitter(options=self.options).compile(artifact, guarded)
        results: list[tuple[Any, ...]] = []
        run = program.boxed

        def boxed(args: list[Any]) -> tuple[Any, ...]:
            if not results:
                results.append(run(args))
            args.clear()
            return results[0]

        program.boxed = boxed  # type: ignore[misc]  # a function's attribute
        return program


@dataclass(frozen=True)
class _NoMatmuls(PythonEmitter):
    """Programs whose matmuls through torch do nothing."""

    options: PyOptions = field(default_factory=lambda: PyOptions(repeated_operators=False))
    name: str = field(default="no-matmuls", init=False)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """See `Emitter`."""
        program: Any = PythonEmitter(options=self.options).compile(artifact, guarded)
        other = ModuleType("torch")
        vars(other).update(vars(torch), **dict.fromkeys(_MATMULS, _nothing))
        program.boxed.__globals__["torch"] = other  # the program looks its operators up when it is called
        compiled: CompiledProgram = program
        return compiled


def host_parts(
    model: nn.Module, args: tuple[Any, ...], seconds: Callable[[Callable[[], object], int], float]
) -> Mapping[str, float]:
    """Returns seconds by part, and of the whole call.

    `seconds` returns the best of some calls, until they have returned.
    """
    sides = {
        "whole": PythonEmitter(),
        "nothing": _FirstResults(),
        "no kernels": PythonEmitter(options=PyOptions(find_runtime=_NoKernels)),
        "no matmuls": _NoMatmuls(),
        "kept": PythonEmitter(options=PyOptions(persistent_buffers=True)),
    }
    runs: dict[str, Callable[[], object]] = {}
    for side, emitter in sides.items():
        torch._dynamo.reset()
        options: dict[str, Any] = {"emitter": emitter, "cache": False}
        compiled = torch.compile(model, backend="wrapper_ir", options=options)
        runs[side] = partial(compiled, *args)
        for _ in range(5):
            runs[side]()
    found = alternate({side: partial(seconds, run, _CALLS) for side, run in runs.items()}, _ROUNDS)
    best = {side: min(times) for side, times in found.items()}
    whole, guards = best["whole"], best["nothing"]
    parts = [guards, *(whole - best[side] for side in ("no kernels", "no matmuls", "kept"))]
    parts.append(whole - sum(parts))
    return {**dict(zip(PARTS, parts, strict=True)), "whole": whole}
