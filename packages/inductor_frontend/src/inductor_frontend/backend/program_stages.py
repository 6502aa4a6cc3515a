"""The stages of a graph's program: as captured, and after each pass.

An artifact of the backend contains the captured program as text, and the pipeline. A pass depends on the
program only, so the other stages are recomputed on demand, even if the artifact was loaded from the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from inductor_frontend.translate.early_memory import early_memory
from inductor_frontend.translate.explained import CAPTURED, PIPELINE
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.passes import Pass
from wrapper_ir.text import parse_program
from wrapper_ir_passes import parse_pipeline
from wrapper_ir_passes.cleanup.move_arguments import MoveArguments


def program_stages(artifact: Artifact) -> Iterator[tuple[str, ir.Program]]:
    """Yields (name, program) of each stage; only the last one if the artifact lacks the captured program."""
    text = artifact.extensions.get(CAPTURED, "")
    if not text:
        yield "final", artifact.program
        return
    program = dataclasses.replace(parse_program(text), kernels=artifact.program.kernels)
    yield "captured", program
    program = early_memory(Analyses(program))
    for step in (MoveArguments(), *_passes(artifact)):
        program = step.run(program)
        yield step.name, program
        if isinstance(step, MoveArguments):
            program = _with_static(program, artifact.program)


def _passes(artifact: Artifact) -> tuple[Pass, ...]:
    try:
        return parse_pipeline(artifact.metadata.get(PIPELINE, ""))
    except WirError:  # written by a version with other passes
        return ()


def _with_static(program: ir.Program, final: ir.Program) -> ir.Program:
    """Marks the parameters of main static that are static in the final program."""
    static = {p.value.name for p in final.main.params if p.static}
    params = [dataclasses.replace(p, static=p.static or p.value.name in static) for p in program.main.params]
    main = dataclasses.replace(program.main, params=tuple(params))
    return program.with_functions((main, *program.functions[1:]))
