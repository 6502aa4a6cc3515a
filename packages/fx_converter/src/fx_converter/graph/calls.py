"""Calls of kernels, library operators and collectives, and their results."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import torch
from torch import fx

from fx_converter import targets
from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from fx_converter.nodes import Argument
from fx_converter.targets.collectives import FINISHED_CALLS
from wrapper_ir import ir
from wrapper_ir.support.quoting import is_python_name
from wrapper_ir_lowering.steps import CallOperator, Given, Launch, StartCollective, Unpack, Wait
from wrapper_ir_torch import resolve

Nested: TypeAlias = Any
"""Any: fake values in nested tuples, lists and dictionaries."""


def launch(step: Launch, scope: FunctionScope) -> None:
    """Calls a kernel in the chosen form. The numbers of its grid follow its arguments."""
    kernel = step.kernel
    args = [scope.argument(arg) for _, arg in step.args]
    grid = [scope.argument(arg) for arg in step.grid]
    with on_stream(step, scope):
        node = scope.program.kernels.call(kernel, args, grid, scope)
    node.meta["kernel"] = kernel.name
    node.meta["kernel_hash"] = scope.program.kernels.hash_of(kernel)


def _call(
    step: CallOperator | StartCollective, result: ir.Value | None, val: Nested, scope: FunctionScope
) -> fx.Node:
    """Calls an operator with arguments in the structure of its schema."""
    operation = resolve(step.operator.extern)
    args, kwargs = _arguments(step, scope)
    if operation.position is not None:
        args.insert(operation.position, operation.inner)
    function = operation.function
    if isinstance(step, StartCollective) and step.is_finished:
        function = FINISHED_CALLS[step.operator.extern.name]
    with on_stream(step, scope):
        node = scope.node(
            "call_function", function, tuple(args), kwargs, None if result is None else result.name, val
        )
    if result is not None:
        node.meta["value"] = result.name
        scope.nodes[result] = node
    return node


def _arguments(
    step: CallOperator | StartCollective, scope: FunctionScope
) -> tuple[list[Argument], dict[str, Argument]]:
    """Returns arguments by position and by keyword. An argument whose name is a Python keyword (`from`)
    cannot be written by name: it is passed by position, with those before it. Raises NotSupportedError WIR914
    if the schema requires it by keyword."""
    args: list[Argument] = []
    kwargs: dict[str, Argument] = {}
    reserved = [a for a in step.arguments if a.given is Given.KEYWORD and not is_python_name(a.schema.name)]
    for argument in reserved:
        if argument.schema.keyword_only:
            what = f"{step.operator.extern.name} takes {argument.schema.name!r} by keyword only"
            raise scope.not_supported("WIR914", what, "emit Python, or wrap the operator")
    last = step.arguments.index(reserved[-1]) if reserved else -1
    for number, argument in enumerate(step.arguments):
        if argument.given is Given.POSITION or number <= last:
            args.append(scope.argument(argument.value))
        elif argument.given is Given.KEYWORD:
            kwargs[argument.schema.name] = scope.argument(argument.value)
    return args, kwargs


def call_operator(step: CallOperator, scope: FunctionScope) -> None:
    if step.result is None:
        _call(step, None, _written(step, scope), scope)
    elif ir.is_results(step.result):
        _call(step, step.result, _nested(step, step.result, scope), scope)
    else:
        _call(step, step.result, scope.fake(step.result), scope)


def _written(step: CallOperator, scope: FunctionScope) -> Nested:
    """Returns the fake result of an operator whose result is unused: for out variants, the tensors that it
    wrote."""
    returns = step.operator.schema.returns
    sets = {alias: a.value for a in step.arguments if a.schema.written for alias in a.schema.aliases}
    values = []
    for result in returns:
        arg = next((sets[alias] for alias in result.aliases if alias in sets), None)
        values.append(scope.value(arg).meta["val"] if isinstance(arg, ir.Value) else None)
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def _nested(step: CallOperator, result: ir.Value, scope: FunctionScope) -> Nested:
    """Returns a nested fake value: the parts that later steps unpack, and None for others. Several results
    form a tuple."""
    tree: Nested = None
    for unpacked in scope.unpacks.get(result, ()):
        tree = _placed(tree, unpacked.path, scope.fake(unpacked.result))
    count = len(step.operator.schema.returns)
    if count > 1 and (tree is None or isinstance(tree, list)):
        items = tree or []
        return (*items, *[None] * (count - len(items)))
    return tree


def _placed(tree: Nested, path: tuple[int | str, ...], leaf: Nested) -> Nested:
    """Returns `tree` with `leaf` at `path`."""
    if not path:
        return leaf
    head = path[0]
    if isinstance(head, str):
        table = dict(tree or {})
        table[head] = _placed(table.get(head), path[1:], leaf)
        return table
    items = list(tree or [])
    items += [None] * (head + 1 - len(items))
    items[head] = _placed(items[head], path[1:], leaf)
    return items


def unpack(step: Unpack, scope: FunctionScope) -> None:
    """Calls `operator.getitem` for each part of the path; an empty path is the result itself."""
    node = scope.value(step.source)
    tree = node.meta["val"]
    for number, part in enumerate(step.path):
        tree = tree[part] if tree is not None else None
        if number + 1 < len(step.path):
            node = scope.call(operator.getitem, node, part, val=tree)
    if step.path:
        scope.bind(step.result, operator.getitem, node, step.path[-1], val=tree)
    else:
        scope.bind(step.result, targets.same, node, val=tree)


def start_collective(step: StartCollective, scope: FunctionScope) -> None:
    """Calls a functional collective, whose results must be waited for, or a function that waits. A list of
    tensors is unpacked."""
    if len(step.results) == 1 and not step.is_list:
        _call(step, step.results[0], scope.fake(step.results[0]), scope)
        return
    fakes = [scope.fake(result) for result in step.results]
    node = _call(step, None, fakes, scope)
    for number, (result, val) in enumerate(zip(step.results, fakes)):
        scope.bind(result, operator.getitem, node, number, val=val)


def wait(step: Wait, scope: FunctionScope) -> None:
    """Calls torch's operator that waits."""
    source = scope.value(step.source)
    scope.bind(step.result, torch.ops._c10d_functional.wait_tensor.default, source, val=source.meta["val"])
