"""Adds compiled graphs to torch's structured trace (`TORCH_TRACE`), which tlparse shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

from torch._guards import CompileContext, CompileId
from torch._logging._internal import trace_structured

from inductor_frontend.backend.graph_explanation import explain_graph
from inductor_frontend.backend.live_graphs import GraphInfo
from inductor_frontend.backend.provenance import Provenance, provenance_of
from inductor_frontend.backend.visible import emitted_code
from inductor_frontend.translate.explained import CAPTURED, DYNAMO_NODES
from wrapper_ir.text import print_program
from wrapper_ir_tools.explain import Explanation, explanation_json, explanation_text


def trace_graph(info: GraphInfo) -> None:
    """Adds a graph's code, its program before and after passes, and its explanation to the trace.

    They are added under torch's compile id of the function. Links between graphs and code have Inductor's
    names.
    """
    artifact, compile_id = info.artifact, _compile_id(info)

    def add(name: str, encoding: str, text: Callable[[], str]) -> None:
        trace_structured(
            "artifact",
            metadata_fn=lambda: {"name": name, "encoding": encoding},
            payload_fn=text,
            compile_id=compile_id,
        )

    @cache
    def explanation() -> Explanation:
        return explain_graph(info)

    @cache
    def provenance() -> Provenance:
        nodes = json.loads(artifact.extensions.get(DYNAMO_NODES, "{}"))
        return provenance_of(explanation(), nodes, f"{info.function.compile_id} {info.kind}".strip())

    trace_structured(
        "inductor_output_code",
        lambda: {"filename": f"wrapper_ir.{info.emitter.name}"},
        payload_fn=lambda: provenance().code or emitted_code(artifact, info.emitter),
        compile_id=compile_id,
    )
    add("inductor_provenance_tracking_node_mappings", "json", lambda: provenance().mappings)
    add("inductor_provenance_tracking_kernel_stack_traces", "json", lambda: provenance().stacks)
    own = f"wrapper_ir_{info.kind}"
    add(f"{own}_captured", "string", lambda: artifact.extensions.get(CAPTURED, "not stored"))
    add(f"{own}_program", "string", lambda: print_program(artifact.program))
    add(f"{own}_explanation", "string", lambda: explanation_text(explanation()))
    add(f"{own}_explanation_data", "json", lambda: explanation_json(explanation()))


def _compile_id(info: GraphInfo) -> CompileId | None:
    """Returns the compile id of the function. torch's current id may differ: a backward graph is compiled
    later."""
    text = info.function.compile_id
    return CompileId.from_string(text) if text else CompileContext.current_compile_id()
