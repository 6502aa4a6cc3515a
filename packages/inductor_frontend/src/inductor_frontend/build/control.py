"""Control flow: upstream's nodes that call subgraphs, as ops that call functions of the program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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

# Any in this file: upstream declares its node classes' fields as optional sequences of any node.


def _graph(subgraph: ir.Subgraph | None) -> RecordingSubgraph:
    assert subgraph is not None
    assert isinstance(subgraph.graph, RecordingSubgraph)
    return subgraph.graph


def _layouts(scope: Scope, outputs: Sequence[Any]) -> list[tuple[int, TensorType | None]]:
    """(position, type) of the outputs that a node takes from its callee."""
    return [
        (o.indices[0][1], scope.result_type(o.get_layout())) for o in outputs if isinstance(o, ir.MultiOutput)
    ]


def _call(scope: Scope, node: Any, callee: Callee, operands: Operands) -> tuple[Arg, ...]:
    """The arguments of a call, with the layouts that the callee expects."""
    if operands.passed != callee.passed:
        raise ConversionError(
            "FE304", f"@{callee.name} is called with other sizes than before: {operands.args}"
        )
    args = [operands.args[i] for i in operands.passed]
    return tuple(conform(scope, a, t) if isinstance(a, Value) else a for a, t in zip(args, callee.params))


def _results(scope: Scope, outputs: Sequence[Any]) -> tuple[Value, ...]:
    """Values for the results that a node takes from its callee, bound to upstream's names."""
    taken = [o for o in outputs if isinstance(o, ir.MultiOutput)]
    return tuple(
        scope.bind(o.get_name(), scope.function.value(o.get_name(), scope.result_type(o.get_layout())))
        for o in taken
    )


def conditional(scope: Scope, node: ir.Conditional) -> None:
    """`torch.cond`."""
    branches = [_graph(node.true_subgraph), _graph(node.false_subgraph)]
    assert node.outputs is not None
    operands = Operands.of(scope, node.operands or (), branches)
    predicate = to_arg(scope, node.predicate)
    returned = _layouts(scope, node.outputs)
    true, false = (make_callee(scope, b, operands, returned) for b in branches)
    op = Conditional(
        predicate=predicate,
        true_fn=true.name,
        false_fn=false.name,
        args=_call(scope, node, true, operands),
        results=_results(scope, node.outputs),
        prov=scope.function.prov,
    )
    scope.function.append(op)
    _define(scope, node)


def _define(scope: Scope, node: Any) -> None:
    if getattr(node, "unbacked_bindings", None):
        define_unbacked(scope, node, None)


def invoke_subgraph(scope: Scope, node: ir.InvokeSubgraph) -> None:
    """A region that is compiled once and called several times."""
    graph = _graph(node.subgraph)
    assert node.outputs is not None
    operands = Operands.of(scope, node.inputs, [graph], inline=False)
    callee = scope.callees.get(str(graph.name))
    if callee is None:
        callee = make_callee(scope, graph, operands, _layouts(scope, node.outputs))
        scope.callees[str(graph.name)] = callee
    op = CallSubgraph(
        function=callee.name,
        args=_call(scope, node, callee, operands),
        results=_results(scope, node.outputs),
        prov=scope.function.prov,
    )
    scope.function.append(op)


def while_loop(scope: Scope, node: ir.WhileLoop) -> None:
    """`while_loop`, also with the results of all trips stacked."""
    cond, body = _graph(node.cond_subgraph), _graph(node.body_subgraph)
    assert node.outputs is not None
    carried = list(node.carried_inputs or ())
    held = [] if node.stack_output else [i for i in range(len(carried)) if _hands_on(body, i)]
    operands = Operands.of(scope, [*carried, *(node.additional_inputs or ())], [cond, body])
    own = [i for i in range(len(carried)) if i not in held]
    rest = [i for i in operands.passed if i not in own]
    inlined = tuple(i for i in operands.inlined if i not in own)
    operands = dataclasses.replace(operands, passed=(*own, *rest), inlined=inlined)
    tested = make_callee(scope, cond, operands, [(0, None)])
    made = make_callee(scope, body, operands, [(i, _carry_type(body, i)) for i in own])
    args = _call(scope, node, made, operands)
    outputs: dict[int, ir.MultiOutput] = {o.indices[0][1]: o for o in node.outputs}
    results = [_loop_result(scope, node, outputs.get(i), args[k]) for k, i in enumerate(own)]
    op = WhileLoop(
        cond_fn=tested.name,
        body_fn=made.name,
        carried=args[: len(own)],
        captured=args[len(own) :],
        results=tuple(results),
        stacked=node.stack_output,
        prov=scope.function.prov,
    )
    scope.function.append(op)
    for i in held:
        arg = operands.args[i]
        if i in outputs and outputs[i].get_operation_name() not in scope.graph.removed_operations:
            assert isinstance(arg, Value)
            scope.bind(outputs[i].get_name(), copy(scope, arg, arg.type))
    _define(scope, node)


def _loop_result(scope: Scope, node: Any, output: ir.MultiOutput | None, arg: Arg) -> Value:
    if output is None:
        raise ConversionError(
            "FE307", f"{node.get_name()}: a loop's body writes to what it carries, and returns another tensor"
        )
    name = output.get_name()
    return scope.bind(name, scope.function.value(name, scope.result_type(output.get_layout())))


def _hands_on(body: RecordingSubgraph, position: int) -> bool:
    """Whether a loop's body returns what it was given, written to or not."""
    name = body.graph_input_names[position]
    node: Any = body.graph_outputs[position]
    while isinstance(node, ir.MutableBox):
        node = node.data
    return isinstance(node, ir.InputBuffer) and node.get_name() == name


def _carry_type(body: RecordingSubgraph, position: int) -> TensorType | None:
    return None
