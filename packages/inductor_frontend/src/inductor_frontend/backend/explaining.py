"""`explain(model, args)`: maps each source line of a model to the emitted lines, with the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from wrapper_ir_tools.explain import (
    Explanation,
    LineShare,
    Split,
    explanation_data,
    explanation_text,
    line_share,
)

if TYPE_CHECKING:
    from torch._inductor.utils import InputType


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelExplanation:
    """The explanation of a compiled model.

    `graphs` has an explanation for each graph (`0/0 forward`, `0/0 backward`). `guards` maps torch's compile
    id of each compiled version of a function to its guards. `lacks` states in words what the explanation does
    not cover.
    """

    graphs: tuple[Explanation, ...]
    breaks: tuple[Split, ...]
    guards: Mapping[str, str]
    lacks: tuple[str, ...] = ()

    @property
    def share(self) -> LineShare:
        """The share of emitted lines, over all graphs, that lead to a source line."""
        return line_share(self.graphs)

    def to_json(self) -> str:
        """Returns the explanation as JSON; each item of `graphs` follows `explain.schema.json`."""
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
    model: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    *,
    emitters: Sequence[str] = ("python",),
    options: Mapping[str, object] | None = None,
) -> ModelExplanation:
    """Explains how `torch.compile(model, backend="wrapper_ir", options=options)` compiles a call with these
    arguments.

    The gradients of the results are included if any result requires them. The model is called once, and its
    gradients are computed. `.grad`, buffers and the state of random generators are restored; other effects of
    the model are not undone. Like `torch._dynamo.explain`, this resets Dynamo before and after: functions
    that were compiled before are compiled again on their next call. `emitters` are those whose lines are
    shown.

    Raises CaptureError FE103 for unknown options, and any error of compiling and calling the model.
    """
    infos: list[GraphInfo] = []
    parsed = BackendOptions.parse(options, None)

    def backend(gm: GraphModule, inputs: Sequence[InputType]) -> Callable[..., object]:
        return compile_function(gm, inputs, parsed, (infos.append,))

    torch._dynamo.reset()
    refused_before = counters[COUNTERS]["graphs"]
    try:
        compiled: Callable[..., object] = torch.compile(model, backend=backend)
        with preserve_rng_state(), _restored_buffers(model):
            _run(compiled, args, kwargs or {}, model)
        return _explained(infos, emitters, counters[COUNTERS]["graphs"] - refused_before)
    finally:
        torch._dynamo.reset()


def _explained(infos: Sequence[GraphInfo], emitters: Sequence[str], refused: int) -> ModelExplanation:
    lacks = (
        [f"{refused} graphs that Inductor compiled itself, since they cannot be captured"] if refused else []
    )
    return ModelExplanation(
        graphs=tuple(explain_graph(info, emitters) for info in infos),
        breaks=tuple(Split(what="Dynamo graph", why=b.reason, sources=b.stack[::-1]) for b in graph_breaks()),
        guards={code.compile_id: code.guards for code in compiled_codes()},
        lacks=tuple(lacks),
    )


def _run(
    compiled: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], model: object
) -> None:
    """Calls the function once, and computes its gradients if it has any."""
    results = [x for x in pytree.tree_leaves(compiled(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    results = [x for x in results if x.requires_grad]
    leaves = [x for x in pytree.tree_leaves((args, dict(kwargs))) if isinstance(x, torch.Tensor)]
    leaves += list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    differentiable = [x for x in leaves if x.requires_grad]
    if results and differentiable:
        gradients = [torch.ones_like(x) for x in results]
        torch.autograd.grad(results, differentiable, gradients, allow_unused=True)


@contextmanager
def _restored_buffers(model: object) -> Iterator[None]:
    """Restores the buffers of a module afterwards."""
    buffers = list(model.buffers()) if isinstance(model, torch.nn.Module) else []
    before = [b.detach().clone() for b in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in zip(buffers, before, strict=True):
                if not torch.equal(buffer, old):
                    buffer.copy_(old)
