"""The graph of an exported program in one form, whichever of torch's it has: it takes parameters, buffers,
literal tensors and arguments, writes to them in place, and returns the model's outputs.

A program as `torch.export.export` makes it is in this form. One that was decomposed returns new values for what it
writes, and threads tokens through operators with effects: both are put back.
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
    """The graph (a copy: the exported program stays as it is), its inputs in order, and the model's output leaves."""

    gm: fx.GraphModule
    inputs: tuple[InputSpec, ...]
    placeholders: dict[str, fx.Node]
    outputs: tuple[Any, ...]  # Any: nodes among literals


def training_graph(exported: ExportedProgram) -> TrainingGraph:
    """Raises CaptureError FE102 for outputs that a signature cannot hold."""
    graph = fx.Graph()
    output: Any = graph.graph_copy(exported.graph, {})  # Any: torch's type of an output node's argument
    graph.output(output)
    gm = fx.GraphModule(exported.graph_module, graph)
    signature = exported.graph_signature
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]  # a copy may give them other names
    placeholders = {s.arg.name: n for s, n in zip(signature.input_specs, nodes, strict=True)}
    outputs = _write_in_place(gm.graph, signature.output_specs, _targets(signature.input_specs, placeholders))
    inputs = tuple(s for s in signature.input_specs if s.kind is not InputKind.TOKEN)
    for spec in signature.input_specs:
        if spec.kind is InputKind.TOKEN:
            _drop_tokens(gm.graph, placeholders.pop(spec.arg.name))
    return TrainingGraph(gm, inputs, placeholders, outputs)


def _targets(specs: Sequence[InputSpec], placeholders: dict[str, fx.Node]) -> dict[str, fx.Node]:
    """Placeholders by what mutations call them: a parameter's or buffer's name, or an argument's own."""
    return {s.target or s.arg.name: placeholders[s.arg.name] for s in specs}


def _write_in_place(
    graph: fx.Graph, specs: Sequence[OutputSpec], targets: dict[str, fx.Node]
) -> tuple[Any, ...]:
    """Writes new values into what they are for; gives the model's own outputs, and makes them the graph's."""
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
    found = tuple(_settled(v, writes) if isinstance(v, fx.Node) else v for v in own)
    output.args = (found,)
    return found


def _settled(value: fx.Node, writes: MutationWriter) -> fx.Node:
    target = writes.target_of(value)
    return writes.rebased(value) if target is None else target


def _drop_tokens(graph: fx.Graph, token: fx.Node) -> None:
    """Calls operators with effects as any others: torch's functionalisation threads its tokens anew."""
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
