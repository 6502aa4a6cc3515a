"""Translates control flow: Inductor's nodes that call subgraphs become ops that call functions of the
program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._inductor import ir

from inductor_frontend.errors import ConversionError
from inductor_frontend.operators.schemas import extern_def
from inductor_frontend.operators.unbacked import define_unbacked
from inductor_frontend.record.graph import RecordingSubgraph
from inductor_frontend.scope.arguments import to_arg
from inductor_frontend.scope.scope import Callee, Scope
from inductor_frontend.torch_patches._compat import switch_of
from inductor_frontend.translate.callees import Operands, conform, copy, make_callee
from wrapper_ir.expr import Int
from wrapper_ir.ir import Arg, CallSubgraph, Copy, DType, Switch, TensorType, Value, WhileLoop, is_tensor

# Any in this file: Inductor declares the fields of its node classes as optional sequences of any node.


def switch(scope: Scope, node: Any) -> None:
    """Emits a Switch for `torch.cond` or `torch.switch`: all branches accept the same arguments."""
    switched = switch_of(node)
    branches = [_graph(branch) for branch in switched.branches]
    outputs = _outputs(node)
    operands = Operands.of(scope, node.operands or (), branches)
    returned = [(i, scope.result_type(o.get_layout())) for i, o in outputs.items()]
    callees = [make_callee(scope, branch, operands, returned) for branch in branches]
    index = to_arg(scope, switched.selector)
    with _arguments(scope, operands, *callees) as args:
        op = Switch(
            index=_truth(scope, index) if switched.is_two_way else index,
            branches=tuple(callee.name for callee in callees),
            args=args,
            results=tuple(_result(scope, o) for o in outputs.values()),
            prov=scope.function.prov,
        )
        scope.function.append(op)
    _define(scope, node)


def invoke_subgraph(scope: Scope, node: ir.InvokeSubgraph) -> None:
    """Emits a call of a region that is compiled once and called several times: one function."""
    graph = _graph(node.subgraph)
    outputs = _outputs(node)
    operands = Operands.of(scope, node.inputs, [graph], inline=False)
    name = str(graph.name)
    if name not in scope.callees:
        returned = [(i, scope.result_type(o.get_layout())) for i, o in outputs.items()]
        scope.callees[name] = make_callee(scope, graph, operands, returned)
    elif not _same_sizes(scope, node, graph) or operands.arguments != scope.callees[name].arguments:
        # Inductor has lowered it for the sizes of one call only.
        raise ConversionError(
            "FE304",
            f"region {name} is called with sizes of which some are equal in one call only",
            hint="call two regions, or mark the sizes that differ as dynamic",
        )
    with _arguments(scope, operands, scope.callees[name]) as args:
        op = CallSubgraph(
            function=scope.callees[name].name,
            args=args,
            results=tuple(_result(scope, o) for o in outputs.values()),
            prov=scope.function.prov,
        )
        scope.function.append(op)


def while_loop(scope: Scope, node: ir.WhileLoop) -> None:
    """Emits a WhileLoop, optionally with the results of all iterations stacked.

    Operands that the body returns unchanged, or writes in place, are captured instead of carried: the loop
    has one such tensor, not one per iteration.
    """
    cond, body = _graph(node.cond_subgraph), _graph(node.body_subgraph)
    carried = node.carried_inputs or ()
    unchanged = [i for i in range(len(carried)) if not node.stack_output and _returns_operand(body, i)]
    changed = [i for i in range(len(carried)) if i not in unchanged]
    operands = Operands.of(scope, [*carried, *(node.additional_inputs or ())], [cond, body])
    operands = dataclasses.replace(
        operands,
        arguments=(*changed, *(i for i in operands.arguments if i not in changed)),
        inlined=tuple(i for i in operands.inlined if i not in changed),
    )
    cond_callee = make_callee(scope, cond, operands, [(0, None)])
    body_callee = make_callee(scope, body, operands, [(i, _carried_type(scope, body, i)) for i in changed])
    outputs = _outputs(node)
    if not outputs.keys() >= set(changed):
        raise ConversionError(
            "FE307",
            f"the body of loop {node.get_name()} writes to what it carries, and returns other tensors",
        )
    with _arguments(scope, operands, cond_callee, body_callee) as args:
        op = WhileLoop(
            cond_fn=cond_callee.name,
            body_fn=body_callee.name,
            carried=args[: len(changed)],
            captured=args[len(changed) :],
            results=tuple(_result(scope, outputs[i]) for i in changed),
            stacked=node.stack_output,
            prov=scope.function.prov,
        )
        scope.function.append(op)
    _bind_unchanged(scope, {i: o for i, o in outputs.items() if i in unchanged}, operands)
    _define(scope, node)


def _truth(scope: Scope, predicate: Arg) -> Arg:
    """Returns the predicate as a bool: a numeric tensor is true if it is not 0."""
    if not is_tensor(predicate) or predicate.type.dtype is DType.BOOL:
        return predicate
    type = dataclasses.replace(predicate.type, dtype=DType.BOOL)
    extern = extern_def(torch.ops.aten.ne.Scalar)
    return scope.function.call(extern, (predicate, Int(0)), name=f"{predicate.name}.b", type=type)


def _graph(subgraph: ir.Subgraph | None) -> RecordingSubgraph:
    assert subgraph is not None
    assert isinstance(subgraph.graph, RecordingSubgraph)
    return subgraph.graph


def _outputs(node: Any) -> dict[int, ir.MultiOutput]:
    """Returns the results that a node uses, by position of the callee's outputs, without sizes and None."""
    outputs: Sequence[object] = node.outputs
    return {o.indices[0][1]: o for o in outputs if isinstance(o, ir.MultiOutput)}


def _same_sizes(scope: Scope, node: ir.InvokeSubgraph, graph: RecordingSubgraph) -> bool:
    """Returns whether a region is called with tensors of the sizes that it was lowered for."""
    originals = [graph.graph_inputs_original.get(name) for name in graph.graph_input_names]
    inputs: Sequence[Any] = node.inputs
    pairs = [
        (a, b)
        for operand, original in zip(inputs, originals)
        if original is not None
        for a, b in zip(operand.get_size(), original.get_size())
    ]
    return all(scope.graph.sizevars.statically_known_equals(a, b) for a, b in pairs)


@contextmanager
def _arguments(scope: Scope, operands: Operands, *callees: Callee) -> Iterator[tuple[Arg, ...]]:
    """Yields the arguments of a call, with the layouts that its callees expect.

    Inductor may have changed an operand's layout after it lowered the callees. Writes to a copy are copied
    back after the call.
    """
    args = [operands.args[i] for i in operands.arguments]
    conformed = tuple(
        conform(scope, a, t) if isinstance(a, Value) else a for a, t in zip(args, callees[0].params)
    )
    yield conformed
    mutated = frozenset[int]().union(*(c.writes for c in callees))
    for k, (arg, operand) in enumerate(zip(args, conformed)):
        if k in mutated and arg is not operand and is_tensor(arg) and is_tensor(operand):
            scope.function.append(Copy(dst=arg, src=operand, prov=scope.function.prov))


def _result(scope: Scope, output: ir.MultiOutput) -> Value[TensorType]:
    name = output.get_name()
    return scope.bind(name, scope.function.value(name, scope.result_type(output.get_layout())))


def _define(scope: Scope, node: ir.ExternKernel) -> None:
    """Defines the unbacked sizes of the results."""
    if getattr(node, "unbacked_bindings", None):
        define_unbacked(scope, node, None)


def _returns_operand(body: RecordingSubgraph, position: int) -> bool:
    """Returns whether a loop's body returns an operand at its own position."""
    output: object = body.graph_outputs[position]
    while isinstance(output, ir.MutableBox):
        output = output.data
    return isinstance(output, ir.InputBuffer) and output.get_name() == body.graph_input_names[position]


def _carried_type(scope: Scope, body: RecordingSubgraph, position: int) -> TensorType | None:
    """Returns the layout in which the next iteration expects a carried tensor; None for a number."""
    original = body.graph_inputs_original.get(body.graph_input_names[position])
    return None if original is None else scope.result_type(original.get_layout())


def _bind_unchanged(scope: Scope, outputs: Mapping[int, ir.MultiOutput], operands: Operands) -> None:
    """Binds results that the body returns unchanged to copies of the loop's operands."""
    for i, output in outputs.items():
        arg = operands.args[i]
        if output.get_operation_name() not in scope.graph.removed_operations and isinstance(arg, Value):
            scope.bind(output.get_name(), copy(scope, arg, arg.type))
