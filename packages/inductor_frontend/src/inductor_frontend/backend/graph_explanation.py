"""The explanation of one compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_frontend.backend.live_graphs import GraphInfo, live_graphs
from wrapper_ir_tools.explain import ExplainOptions, Explanation, Lead, explain_artifact


def explain_graph(info: GraphInfo, emitters: Sequence[str] = ()) -> Explanation:
    """The explanation of one graph, with the code that runs where `emitters` names its emitter, or is empty; a backward graph's
    saved tensors lead to the lines of its forward graph."""
    own = info.emitter
    chosen = [own if name == own.name else name for name in emitters or (own.name,)]
    saved: dict[str, tuple[str, ...]] = {}
    if info.kind == "backward":
        saved = _saved_sources(info)
    name = f"{info.function.compile_id} {info.kind}".strip()
    options = ExplainOptions(name=name, saved=saved)
    return explain_artifact(info.artifact, chosen, options, info.guarded)


def _saved_sources(info: GraphInfo) -> dict[str, tuple[str, ...]]:
    """The source lines of the forward graph's nodes, by the name of the parameter that has a node's value."""
    forward = [r for r in live_graphs() if r.function is info.function and r.kind == "forward"]
    found: dict[str, tuple[str, ...]] = {}
    for one in forward:
        for op in explain_artifact(one.artifact, ()).ops:
            if op.lead is Lead.OWN:
                for node in op.nodes[:1]:
                    found.setdefault(node, op.sources)
    return found
