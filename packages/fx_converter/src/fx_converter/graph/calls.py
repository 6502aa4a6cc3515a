"""Calls of kernels, library operators and collectives, and what they return."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from fx_converter.targets.collectives import FINISHED_CALLS
from wrapper_ir import ir
from wrapper_ir.support.quoting import is_python_name
from wrapper_ir_lowering.steps import CallOperator, Given, Launch, StartCollective, Unpack, Wait
from wrapper_ir_torch import resolve

# Any in this file: arguments and results in structure
Nested = Any


def launch(step: Launch, scope: FunctionScope) -> None:
    """A call of a kernel, in the chosen form; the numbers of its grid come after its arguments."""
    kernel = step.kernel
    args = [scope.argument(arg) for _, arg in step.args]
    grid = [scope.argument(arg) for arg in step.grid]
    with on_stream(step, scope):
        made = scope.program.kernels.call(kernel, args, grid, scope)
    made.meta["kernel"] = kernel.name
    made.meta["kernel_hash"] = scope.program.kernels.hash_of(kernel)


def _call(
    step: CallOperator | StartCollective, result: ir.Value | None, val: Nested, scope: FunctionScope
) -> fx.Node:
    """The call, with the arguments in structure, as the operator's schema has them."""
    called = resolve(step.operator.extern)
    args, kwargs = _arguments(step, scope)
    if called.position is not None:
        args.insert(called.position, called.inner)
    function = called.function
    if isinstance(step, StartCollective) and step.is_finished:
        function = FINISHED_CALLS[step.operator.extern.name]
    with on_stream(step, scope):
        made = scope.node(
            "call_function",
            function,
            tuple(args),
            kwargs,
            None if result is None else result.name,
            val,
        )
    if result is not None:
        made.meta["value"] = result.name
        scope.nodes[result] = made
    return made


def _arguments(
    step: CallOperator | StartCollective, scope: FunctionScope
) -> tuple[list[Nested], dict[str, Nested]]:
    """Arguments by position and by keyword. One that is called like a keyword of Python (`from`), which no text of a graph
    can hold, is given by position, with those before it. Raises NotSupportedError WIR914 where the schema wants it by
    keyword."""
    args: list[Nested] = []
    kwargs: dict[str, Nested] = {}
    odd = [a for a in step.arguments if a.given is Given.KEYWORD and not is_python_name(a.schema.name)]
    for argument in odd:
        if argument.schema.keyword_only:
            what = f"{step.operator.extern.name} takes {argument.schema.name!r} by keyword only"
            raise scope.not_supported("WIR914", what, "emit Python, or wrap the operator")
    last = step.arguments.index(odd[-1]) if odd else -1
    for number, argument in enumerate(step.arguments):
        if argument.given is Given.POSITION or number <= last:
            args.append(scope.argument(argument.value))
        elif argument.given is Given.KEYWORD:
            kwargs[argument.schema.name] = scope.argument(argument.value)
    return args, kwargs


def call_operator(step: CallOperator, scope: FunctionScope) -> None:
    """A call."""
    if step.result is None:
        _call(step, None, _written(step, scope), scope)
    elif ir.is_results(step.result):
        _call(step, step.result, _nested(step, step.result, scope), scope)
    else:
        _call(step, step.result, scope.fake(step.result), scope)


def _written(step: CallOperator, scope: FunctionScope) -> Nested:
    """What an operator returns whose result nobody keeps: for out variants, the tensors that it wrote."""
    returns = step.operator.schema.returns
    sets = {alias: a.value for a in step.arguments if a.schema.written for alias in a.schema.aliases}
    found = []
    for result in returns:
        arg = next((sets[alias] for alias in result.aliases if alias in sets), None)
        found.append(scope.value(arg).meta["val"] if isinstance(arg, ir.Value) else None)
    if not found:
        return None
    return found[0] if len(found) == 1 else tuple(found)


def _nested(step: CallOperator, result: ir.Value, scope: FunctionScope) -> Nested:
    """A nested fake value: what later steps take out of it, and None for what nobody takes. Several results are a tuple."""
    tree: Nested = None
    for unpacked in scope.unpacks.get(result, ()):
        tree = _placed(tree, unpacked.path, scope.fake(unpacked.result))
    count = len(step.operator.schema.returns)
    if count > 1 and (tree is None or isinstance(tree, list)):
        taken = tree or []
        return (*taken, *[None] * (count - len(taken)))
    return tree


def _placed(tree: Nested, path: tuple[int | str, ...], leaf: Nested) -> Nested:
    """`tree` with `leaf` at `path`."""
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
    """`operator.getitem` for each part of the path; an empty path is the result itself."""
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
    """Functional collectives are operators whose results must be waited for, or calls that wait for them; a list of tensors is
    taken apart."""
    if len(step.results) == 1 and not step.is_list:
        _call(step, step.results[0], scope.fake(step.results[0]), scope)
        return
    fakes = [scope.fake(result) for result in step.results]
    made = _call(step, None, fakes, scope)
    for number, (result, val) in enumerate(zip(step.results, fakes)):
        scope.bind(result, operator.getitem, made, number, val=val)


def wait(step: Wait, scope: FunctionScope) -> None:
    """torch waits in an operator of its own."""
    source = scope.value(step.source)
    scope.bind(step.result, torch.ops._c10d_functional.wait_tensor.default, source, val=source.meta["val"])
