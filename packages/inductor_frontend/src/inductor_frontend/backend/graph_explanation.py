"""The explanation of one compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_frontend.backend.records import GraphRecord, live_records
from wrapper_ir.explain import ExplainOptions, Explanation, Lead, explain_artifact

__all__ = ["explain_graph"]


def explain_graph(record: GraphRecord, emitters: Sequence[str]) -> Explanation:
    """The explanation of one graph; a backward graph's saved tensors lead to the lines of its forward graph."""
    saved: dict[str, tuple[str, ...]] = {}
    if record.kind == "backward":
        saved = _saved_sources(record)
    name = f"{record.function.compile_id} {record.kind}".strip()
    return explain_artifact(record.artifact, emitters, ExplainOptions(name=name, saved=saved))


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
