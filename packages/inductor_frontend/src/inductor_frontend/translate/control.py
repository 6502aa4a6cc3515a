"""Control flow: Inductor's nodes that call subgraphs, as ops that call functions of the program."""

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
    """`torch.cond` and `torch.switch`: all branches take the same arguments."""
    found = switch_of(node)
    branches = [_graph(branch) for branch in found.branches]
    outputs = _outputs(node)
    operands = Operands.of(scope, node.operands or (), branches)
    returned = [(i, scope.result_type(o.get_layout())) for i, o in outputs.items()]
    callees = [make_callee(scope, branch, operands, returned) for branch in branches]
    index = to_arg(scope, found.selector)
    with _arguments(scope, operands, *callees) as args:
        op = Switch(
            index=_truth(scope, index) if found.is_two_way else index,
            branches=tuple(callee.name for callee in callees),
            args=args,
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
    elif not _same_sizes(scope, node, graph) or operands.passed != scope.callees[name].passed:
        # Inductor has compiled it for the sizes of one call only.
        raise ConversionError(
            "FE304",
            f"region {name} is called with sizes of which some are the same in one call only",
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
    outputs = _outputs(node)
    if not outputs.keys() >= set(own):
        raise ConversionError(
            "FE307",
            f"the body of loop {node.get_name()} writes to what it carries, and returns other tensors",
        )
    with _arguments(scope, operands, tested, made) as args:
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


def _truth(scope: Scope, predicate: Arg) -> Arg:
    """The predicate as a bool: a tensor of numbers is one where it is not 0."""
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
    """What a node takes from its callee, by position of the callee's outputs. Sizes and None are not taken."""
    found: Sequence[Any] = node.outputs
    return {o.indices[0][1]: o for o in found if isinstance(o, ir.MultiOutput)}


def _same_sizes(scope: Scope, node: ir.InvokeSubgraph, graph: RecordingSubgraph) -> bool:
    """Whether a region gets tensors of the sizes that it was lowered for."""
    originals = [graph.graph_inputs_original.get(name) for name in graph.graph_input_names]
    given: Sequence[Any] = node.inputs
    pairs = [
        (a, b)
        for operand, original in zip(given, originals)
        if original is not None
        for a, b in zip(operand.get_size(), original.get_size())
    ]
    return all(scope.graph.sizevars.statically_known_equals(a, b) for a, b in pairs)


@contextmanager
def _arguments(scope: Scope, operands: Operands, *callees: Callee) -> Iterator[tuple[Arg, ...]]:
    """The arguments of a call, with the layouts that its callees expect: Inductor may have changed an operand's
    after it lowered them. What they write into a copy is copied back after the call."""
    args = [operands.args[i] for i in operands.passed]
    given = tuple(
        conform(scope, a, t) if isinstance(a, Value) else a for a, t in zip(args, callees[0].params)
    )
    yield given
    written = frozenset[int]().union(*(c.written for c in callees))
    for k, (arg, passed) in enumerate(zip(args, given)):
        if k in written and arg is not passed and is_tensor(arg) and is_tensor(passed):
            scope.function.append(Copy(dst=arg, src=passed, prov=scope.function.prov))


def _result(scope: Scope, output: ir.MultiOutput) -> Value[TensorType]:
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
