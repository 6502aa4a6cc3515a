"""`explain(model, args)`: what torch.compile makes of a model, from each source line down to the emitted lines, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import counters, preserve_rng_state
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from inductor_frontend.backend.dynamo_state import compiled_codes, graph_breaks
from inductor_frontend.backend.fallback import COUNTERS
from inductor_frontend.backend.function import compile_function
from inductor_frontend.backend.graph_explanation import explain_graph
from inductor_frontend.backend.live_graphs import GraphInfo
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.functionalize.resizes import lend
from wrapper_ir_tools.explain import (
    Explanation,
    LineShare,
    Split,
    explanation_data,
    explanation_text,
    line_share,
)

# Any in this file: models, their arguments, and torch's untyped interfaces.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelExplanation:
    """What torch.compile made of a model: an explanation for each graph (`0/0 forward`, `0/0 backward`), the graph breaks, the guards
    of each compiled version of a function by torch's number of it, and in words what is not here."""

    graphs: tuple[Explanation, ...]
    breaks: tuple[Split, ...]
    guards: Mapping[str, str]
    lacks: tuple[str, ...] = ()

    @property
    def share(self) -> LineShare:
        """How many emitted lines of all graphs lead to a source line."""
        return line_share(self.graphs)

    def to_json(self) -> str:
        """As JSON; each item of `graphs` has the form of `explain.schema.json`."""
        data = {
            "graphs": [explanation_data(g) for g in self.graphs],
            "breaks": [explanation_data(b) for b in self.breaks],
            "guards": dict(self.guards),
            "lacks": list(self.lacks),
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        parts = [f"graph {graph.name}\n\n{explanation_text(graph)}" for graph in self.graphs]
        for one in self.breaks:
            stack = "".join(f"  at {place}\n" for place in one.sources)
            parts.append(f"split of a {one.what}: {one.why}\n{stack}")
        parts += [f"guards of {name}\n{text}" for name, text in self.guards.items()]
        parts += [f"not here: {lack}\n" for lack in self.lacks]
        return "\n".join(parts)


def explain(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    emitters: Sequence[str] = ("python",),
    options: Mapping[str, Any] | None = None,
) -> ModelExplanation:
    """What `torch.compile(model, backend="wrapper_ir", options=options)` makes of a call with these arguments, and of the gradients of
    its results, if they have some.

    The model is called once, and its gradients are computed: `.grad`, buffers and the state of random generators are as they were
    afterwards; other effects of the model are not undone. As `torch._dynamo.explain` does, this resets Dynamo before and after, so
    functions that were compiled before are compiled again when they are next called. `emitters` are those whose lines are shown.

    Raises CaptureError FE103 for options that are not understood, and what compiling and calling the model raise.
    """
    made: list[GraphInfo] = []
    parsed = BackendOptions.parse(options, None)

    def backend(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_function(lend(gm, inputs), inputs, parsed, (made.append,))

    torch._dynamo.reset()
    left = counters[COUNTERS]["graphs"]
    try:
        compiled: Callable[..., Any] = torch.compile(model, backend=backend)
        with preserve_rng_state(), _kept_buffers(model):
            _run(compiled, args, kwargs or {}, model)
        return _explained(made, emitters, counters[COUNTERS]["graphs"] - left)
    finally:
        torch._dynamo.reset()


def _explained(made: Sequence[GraphInfo], emitters: Sequence[str], left: int) -> ModelExplanation:
    lacks = [f"{left} graphs that Inductor compiled itself, since they cannot be captured"] if left else []
    return ModelExplanation(
        graphs=tuple(explain_graph(info, emitters) for info in made),
        breaks=tuple(Split(what="Dynamo graph", why=b.reason, sources=b.stack[::-1]) for b in graph_breaks()),
        guards={code.compile_id: code.guards for code in compiled_codes()},
        lacks=tuple(lacks),
    )


def _run(compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], model: Any) -> None:
    """One call, and its gradients where it has any."""
    results = [x for x in pytree.tree_leaves(compiled(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    results = [x for x in results if x.requires_grad]
    leaves = [x for x in pytree.tree_leaves((args, dict(kwargs))) if isinstance(x, torch.Tensor)]
    leaves += list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    wanted = [x for x in leaves if x.requires_grad]
    if results and wanted:
        gradients = [torch.ones_like(x) for x in results]
        torch.autograd.grad(results, wanted, gradients, allow_unused=True)


@contextmanager
def _kept_buffers(model: Any) -> Iterator[None]:
    """Buffers of a module are afterwards as they were."""
    buffers = list(model.buffers()) if isinstance(model, torch.nn.Module) else []
    before = [b.detach().clone() for b in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(buffers, before, strict=True):
                if not torch.equal(buffer, old):
                    buffer.copy_(old)
