"""The explanation of one compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_frontend.backend.live_graphs import GraphInfo, live_graphs
from wrapper_ir_tools.explain import ExplainOptions, Explanation, Lead, explain_artifact


def explain_graph(info: GraphInfo, emitters: Sequence[str] = ()) -> Explanation:
    """Explains one graph, with the code of `emitters`.

    If `emitters` is empty or names the graph's emitter, the running code is shown. Saved tensors of a
    backward graph lead to the source lines of its forward graph.
    """
    own = info.emitter
    emitter_names = [own if name == own.name else name for name in emitters or (own.name,)]
    saved: dict[str, tuple[str, ...]] = {}
    if info.kind == "backward":
        saved = _saved_sources(info)
    name = f"{info.function.compile_id} {info.kind}".strip()
    options = ExplainOptions(name=name, saved=saved)
    return explain_artifact(info.artifact, emitter_names, options, info.guarded)


def _saved_sources(info: GraphInfo) -> dict[str, tuple[str, ...]]:
    """Returns the source lines of the forward graph's nodes, by the name of the parameter that has a node's
    value."""
    forward = [r for r in live_graphs() if r.function is info.function and r.kind == "forward"]
    sources: dict[str, tuple[str, ...]] = {}
    for one in forward:
        for op in explain_artifact(one.artifact, ()).ops:
            if op.lead is Lead.OWN:
                for node in op.nodes[:1]:
                    sources.setdefault(node, op.sources)
    return sources
