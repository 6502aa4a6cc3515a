"""A wrong emitter: its engine computes logarithms in place of negations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.interp import Interpreter


class Compiled:
    def __init__(self, program: Artifact) -> None:
        self.boxed = Interpreter(program, ListMachine(), OPTIONS).boxed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Wrong:
    """Emits negations as logarithms."""

    name = "wrong"

    def __init__(self) -> None:
        self.compiled = 0

    def emit(self, artifact: Artifact) -> Artifact:
        raise NotImplementedError

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        raise NotImplementedError

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> Compiled:
        self.compiled += 1
        main = artifact.program.main
        body = [
            replace(op, target="list::log")
            if isinstance(op, ir.CallExtern) and op.target == "list::neg"
            else op
            for op in main.body
        ]
        program = artifact.program.with_functions((main.with_body(body), *artifact.program.functions[1:]))
        return Compiled(replace(artifact, program=program))
