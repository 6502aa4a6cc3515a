"""What torch's structured trace (`TORCH_TRACE`) has of a compiled graph, which tlparse shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from torch._guards import CompileContext, CompileId
from torch._logging._internal import trace_structured

from inductor_frontend.backend.graph_explanation import explain_graph
from inductor_frontend.backend.records import GraphRecord
from inductor_frontend.translate.explained import CAPTURED
from wrapper_ir.explain import Explanation, explanation_json, explanation_text
from wrapper_ir.text import print_program

__all__ = ["trace_graph"]


def trace_graph(record: GraphRecord) -> None:
    """Adds a graph's program, before and after passes, and its explanation to the trace, as artifacts under torch's number of the
    function."""
    artifact, compile_id = record.artifact, _compile_id(record)

    def add(name: str, encoding: str, text: Callable[[], str]) -> None:
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": f"wrapper_ir_{record.kind}_{name}", "encoding": encoding},
            payload_fn=text,
            compile_id=compile_id,
        )

    @cache
    def explanation() -> Explanation:
        return explain_graph(record)

    add("captured", "string", lambda: artifact.extensions.get(CAPTURED, "not kept"))
    add("program", "string", lambda: print_program(artifact.program))
    add("explanation", "string", lambda: explanation_text(explanation()))
    add("explanation_data", "json", lambda: explanation_json(explanation()))


def _compile_id(record: GraphRecord) -> CompileId | None:
    """The function's own: a backward graph may be compiled when torch compiles nothing, or something else."""
    text = record.function.compile_id
    return CompileId.from_string(text) if text else CompileContext.current_compile_id()
