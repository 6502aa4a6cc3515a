"""The explanation of one compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_frontend.backend.records import GraphRecord, live_records
from wrapper_ir_tools.explain import ExplainOptions, Explanation, Lead, explain_artifact


def explain_graph(record: GraphRecord, emitters: Sequence[str] = ()) -> Explanation:
    """The explanation of one graph, with the code that runs where `emitters` names its emitter, or is empty; a backward graph's
    saved tensors lead to the lines of its forward graph."""
    own = record.emitter
    chosen = [own if name == own.name else name for name in emitters or (own.name,)]
    saved: dict[str, tuple[str, ...]] = {}
    if record.kind == "backward":
        saved = _saved_sources(record)
    name = f"{record.function.compile_id} {record.kind}".strip()
    options = ExplainOptions(name=name, saved=saved)
    return explain_artifact(record.artifact, chosen, options, record.guarded)


def _saved_sources(record: GraphRecord) -> dict[str, tuple[str, ...]]:
    """The source lines of the forward graph's nodes, by the name of the parameter that has a node's value."""
    forward = [r for r in live_records() if r.function is record.function and r.kind == "forward"]
    found: dict[str, tuple[str, ...]] = {}
    for one in forward:
        for op in explain_artifact(one.artifact, ()).ops:
            if op.lead is Lead.OWN:
                for node in op.nodes[:1]:
                    found.setdefault(node, op.sources)
    return found
