"""Converts the graph of an exported program to the training form.

In this form, the inputs are parameters, buffers, literal tensors and arguments. The graph writes them in
place and returns the model's outputs. `torch.export.export` returns programs in this form. A decomposed
program returns new values for mutated inputs, and passes tokens through operators with effects; both are
undone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec

from inductor_frontend.errors import CaptureError
from inductor_frontend.functionalize.mutation import MutationWriter

_MUTATIONS = frozenset({OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION}) | {
    # torch 2.11 can write to parameters only as buffers
    kind
    for kind in OutputKind
    if kind.name == "PARAMETER_MUTATION"
}


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """A copy of the exported graph in training form, its inputs in order, and the model's output leaves."""

    gm: fx.GraphModule
    inputs: tuple[InputSpec, ...]
    placeholders: dict[str, fx.Node]
    outputs: tuple[object, ...]


def training_graph(exported: ExportedProgram) -> TrainingGraph:
    """Converts an exported program; raises CaptureError FE102 for outputs that a signature cannot express."""
    graph = fx.Graph()
    output: Any = graph.graph_copy(exported.graph, {})  # Any: torch's type of an output node's argument
    graph.output(output)
    gm = fx.GraphModule(exported.graph_module, graph)
    signature = exported.graph_signature
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]  # the copy may rename them
    placeholders = {s.arg.name: n for s, n in zip(signature.input_specs, nodes, strict=True)}
    outputs = _write_in_place(gm.graph, signature.output_specs, _targets(signature.input_specs, placeholders))
    inputs = tuple(s for s in signature.input_specs if s.kind is not InputKind.TOKEN)
    for spec in signature.input_specs:
        if spec.kind is InputKind.TOKEN:
            _drop_tokens(gm.graph, placeholders.pop(spec.arg.name))
    return TrainingGraph(gm, inputs, placeholders, outputs)


def _targets(specs: Sequence[InputSpec], placeholders: dict[str, fx.Node]) -> dict[str, fx.Node]:
    """Returns placeholders by the names that mutations use: the name of a parameter, buffer or argument."""
    return {s.target or s.arg.name: placeholders[s.arg.name] for s in specs}


def _write_in_place(
    graph: fx.Graph, specs: Sequence[OutputSpec], targets: dict[str, fx.Node]
) -> tuple[object, ...]:
    """Writes new values to their targets. Returns the model's outputs and sets them as the graph's
    outputs."""
    output = graph.output_node()
    values: Any = output.args[0]
    writes = MutationWriter(graph, output)
    for spec, value in zip(specs, values, strict=True):
        if spec.kind in _MUTATIONS:
            assert spec.target is not None
            writes.write(targets[spec.target], value)
        elif spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.TOKEN):
            raise CaptureError("FE102", f"output {spec.arg} is a {spec.kind.name}, which has no typed form")
    own = [v for s, v in zip(specs, values, strict=True) if s.kind is OutputKind.USER_OUTPUT]
    results = tuple(_settled(v, writes) if isinstance(v, fx.Node) else v for v in own)
    output.args = (results,)
    return results


def _settled(value: fx.Node, writes: MutationWriter) -> fx.Node:
    target = writes.target_of(value)
    return writes.rebased(value) if target is None else target


def _drop_tokens(graph: fx.Graph, token: fx.Node) -> None:
    """Calls operators with effects directly: torch's functionalization adds new tokens."""
    for user in list(token.users):
        if user.target is not torch.ops.higher_order.with_effects:
            continue
        _, callee, *args = user.args
        assert isinstance(callee, OpOverload)
        with graph.inserting_before(user):
            call = graph.call_function(callee, tuple(args), dict(user.kwargs))
        call.meta = dict(user.meta)
        several = len(callee._schema.returns) > 1
        for item in list(user.users):
            assert item.target is operator.getitem
            index = item.args[1]
            assert isinstance(index, int)
            if index == 0:
                _drop_tokens(graph, item)
                continue
            if several:
                with graph.inserting_before(item):
                    again = graph.call_function(operator.getitem, (call, index - 1))
                again.meta = dict(item.meta)
                item.replace_all_uses_with(again)
            else:
                call.meta["val"] = item.meta.get("val")
                item.replace_all_uses_with(call)
            graph.erase_node(item)
        if not user.users:
            graph.erase_node(user)
    if not token.users:
        graph.erase_node(token)
