"""Control flow: upstream's nodes that call subgraphs, as ops that call functions of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from torch._inductor import ir

from inductor_frontend.build.arguments import to_arg
from inductor_frontend.build.callees import Operands, conform, copy, make_callee
from inductor_frontend.build.scope import Callee, Scope
from inductor_frontend.build.unbacked import define_unbacked
from inductor_frontend.errors import ConversionError
from inductor_frontend.hooks import RecordingSubgraph
from wrapper_ir.ops import Arg, CallSubgraph, Conditional, WhileLoop
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["conditional", "invoke_subgraph", "while_loop"]

# Any in this file: upstream declares the fields of its node classes as optional sequences of any node.


def conditional(scope: Scope, node: ir.Conditional) -> None:
    """`torch.cond`: both branches take the same arguments."""
    branches = [_graph(node.true_subgraph), _graph(node.false_subgraph)]
    outputs = _outputs(node)
    operands = Operands.of(scope, node.operands or (), branches)
    returned = [(i, scope.result_type(o.get_layout())) for i, o in outputs.items()]
    true, false = (make_callee(scope, branch, operands, returned) for branch in branches)
    op = Conditional(
        predicate=to_arg(scope, node.predicate),
        true_fn=true.name,
        false_fn=false.name,
        args=_arguments(scope, true, operands),
        results=tuple(_result(scope, o) for o in outputs.values()),
        prov=scope.function.prov,
    )
    scope.function.append(op)
    _define(scope, node)


def invoke_subgraph(scope: Scope, node: ir.InvokeSubgraph) -> None:
    """A region that is compiled once and called several times: one function."""
    graph = _graph(node.subgraph)
    outputs = _outputs(node)
    operands = Operands.of(scope, node.inputs, [graph], inline=False)
    name = str(graph.name)
    if name not in scope.callees:
        returned = [(i, scope.result_type(o.get_layout())) for i, o in outputs.items()]
        scope.callees[name] = make_callee(scope, graph, operands, returned)
    op = CallSubgraph(
        function=scope.callees[name].name,
        args=_arguments(scope, scope.callees[name], operands),
        results=tuple(_result(scope, o) for o in outputs.values()),
        prov=scope.function.prov,
    )
    scope.function.append(op)


def while_loop(scope: Scope, node: ir.WhileLoop) -> None:
    """`while_loop`, also with the results of all trips stacked.

    What the body hands on as it is, because it writes into it or does not change it, is not carried but captured:
    the loop has one such tensor, not one a trip.
    """
    cond, body = _graph(node.cond_subgraph), _graph(node.body_subgraph)
    carried = node.carried_inputs or ()
    held = [i for i in range(len(carried)) if not node.stack_output and _hands_on(body, i)]
    own = [i for i in range(len(carried)) if i not in held]
    operands = Operands.of(scope, [*carried, *(node.additional_inputs or ())], [cond, body])
    operands = dataclasses.replace(
        operands,
        passed=(*own, *(i for i in operands.passed if i not in own)),
        inlined=tuple(i for i in operands.inlined if i not in own),
    )
    tested = make_callee(scope, cond, operands, [(0, None)])
    made = make_callee(scope, body, operands, [(i, _carried_type(scope, body, i)) for i in own])
    args = _arguments(scope, made, operands)
    outputs = _outputs(node)
    if not outputs.keys() >= set(own):
        raise ConversionError(
            "FE307",
            f"the body of loop {node.get_name()} writes to what it carries, and returns other tensors",
        )
    op = WhileLoop(
        cond_fn=tested.name,
        body_fn=made.name,
        carried=args[: len(own)],
        captured=args[len(own) :],
        results=tuple(_result(scope, outputs[i]) for i in own),
        stacked=node.stack_output,
        prov=scope.function.prov,
    )
    scope.function.append(op)
    _bind_held(scope, {i: o for i, o in outputs.items() if i in held}, operands)
    _define(scope, node)


def _graph(subgraph: ir.Subgraph | None) -> RecordingSubgraph:
    assert subgraph is not None
    assert isinstance(subgraph.graph, RecordingSubgraph)
    return subgraph.graph


def _outputs(node: Any) -> dict[int, ir.MultiOutput]:
    """What a node takes from its callee, by position of the callee's outputs. Sizes and None are not taken."""
    found: Sequence[Any] = node.outputs
    return {o.indices[0][1]: o for o in found if isinstance(o, ir.MultiOutput)}


def _arguments(scope: Scope, callee: Callee, operands: Operands) -> tuple[Arg, ...]:
    """The arguments of a call, with the layouts that the callee expects."""
    if operands.passed != callee.passed:
        raise ConversionError(
            "FE304",
            f"subgraph {callee.name} is called twice, with sizes that are the same in one call only",
            hint="write the region that is called twice as two regions",
        )
    args = [operands.args[i] for i in operands.passed]
    return tuple(conform(scope, a, t) if isinstance(a, Value) else a for a, t in zip(args, callee.params))


def _result(scope: Scope, output: ir.MultiOutput) -> Value:
    name = output.get_name()
    return scope.bind(name, scope.function.value(name, scope.result_type(output.get_layout())))


def _define(scope: Scope, node: Any) -> None:
    """Defines the sizes that only the results tell."""
    if getattr(node, "unbacked_bindings", None):
        define_unbacked(scope, node, None)


def _hands_on(body: RecordingSubgraph, position: int) -> bool:
    """Whether a loop's body returns an operand in its own place."""
    found: Any = body.graph_outputs[position]
    while isinstance(found, ir.MutableBox):
        found = found.data
    return isinstance(found, ir.InputBuffer) and found.get_name() == body.graph_input_names[position]


def _carried_type(scope: Scope, body: RecordingSubgraph, position: int) -> TensorType | None:
    """The layout in which the next trip takes a carried tensor; None for a number."""
    original = body.graph_inputs_original.get(body.graph_input_names[position])
    return None if original is None else scope.result_type(original.get_layout())


def _bind_held(scope: Scope, outputs: Mapping[int, ir.MultiOutput], operands: Operands) -> None:
    """Results that the body has not changed are copies of what the loop was given."""
    for i, output in outputs.items():
        arg = operands.args[i]
        if output.get_operation_name() not in scope.graph.removed_operations and isinstance(arg, Value):
            scope.bind(output.get_name(), copy(scope, arg, arg.type))
