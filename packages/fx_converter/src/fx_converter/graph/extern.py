"""Library operators and collectives, and what they return."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from fx_converter import targets
from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from fx_converter.native import resolve
from wrapper_ir.analysis.emission import checked_next
from wrapper_ir.ops import Arg, CallExtern, CollectiveStart, Unpack, Wait
from wrapper_ir.quoting import is_python_name
from wrapper_ir.types import TensorType, TupleType
from wrapper_ir.values import Value

__all__ = ["call_extern", "collective", "unpack", "wait"]

# Any in this file: arguments and results in structure
Nested = Any


def _call(
    op: CallExtern | CollectiveStart, result: Value | None, val: Nested, scope: FunctionScope
) -> fx.Node:
    """The call, with the arguments in structure, as the operator's schema has them."""
    extern = scope.program.analyses.externs.get(op.target)
    if extern is None:
        raise scope.invalid(f"the program declares no operator {op.target}")
    target, position, inner = resolve(extern)
    args = [scope.argument(arg) for arg in op.args]
    if position is not None:
        args.insert(position, inner)
    kwargs = {name: scope.argument(arg) for name, arg in op.kwargs}
    if not all(map(is_python_name, kwargs)):
        _by_position(op, args, kwargs, scope)
    with on_stream(op, scope):
        made = scope.node(
            "call_function", target, tuple(args), kwargs, None if result is None else result.name, val
        )
    if result is not None:
        made.meta["value"] = result.name
        scope.nodes[result] = made
    return made


def _by_position(
    op: CallExtern | CollectiveStart, args: list[Nested], kwargs: dict[str, Nested], scope: FunctionScope
) -> None:
    """Moves arguments by keyword to those by position, as far as one is called like a keyword of Python (`from`), which no
    text of a graph can hold. Raises NotSupportedError WIR914 where the schema wants it by keyword."""
    info = scope.program.analyses.extern_info.get(op.target)
    given = len(op.args)
    for arg in info.schema.args[given:] if info is not None else ():
        if arg.keyword_only or arg.name not in kwargs or all(map(is_python_name, kwargs)):
            break
        args.append(kwargs.pop(arg.name))
    for name in kwargs:
        if not is_python_name(name):
            raise scope.not_supported(
                "WIR914", f"{op.target} takes {name!r} by keyword only", "emit Python, or wrap the operator"
            )


def call_extern(op: CallExtern, scope: FunctionScope) -> None:
    """A call, and a check of the layout of what it returns."""
    if op.result is None:
        _call(op, None, _written(op, scope), scope)
    elif isinstance(op.result.type, TupleType):
        _call(op, op.result, _nested(op, op.result, scope), scope)
    else:
        _call(op, op.result, scope.fake(op.result), scope)
        _check_result(op.result, scope)


def _written(op: CallExtern, scope: FunctionScope) -> Nested:
    """What an operator returns whose result nobody keeps: for out variants, the tensors that it wrote."""
    info = scope.program.analyses.extern_info.get(op.target)
    if info is None or not info.schema.returns:
        return None
    names = [a.name for a in info.schema.args]
    given: dict[str, Arg] = dict(zip(names, op.args)) | dict(op.kwargs)
    sets = {alias: a.name for a in info.schema.args if a.written for alias in a.aliases}
    found = []
    for result in info.schema.returns:
        arg = given.get(next((sets[alias] for alias in result.aliases if alias in sets), ""))
        found.append(scope.value(arg).meta["val"] if isinstance(arg, Value) else None)
    return found[0] if len(found) == 1 else tuple(found)


def _nested(call: CallExtern, result: Value, scope: FunctionScope) -> Nested:
    """A nested fake value: what later ops take out of it, and None for what nobody takes. Several results are a tuple."""
    tree: Nested = None
    for op in scope.unpacks.get(result, ()):
        tree = _placed(tree, op.path, scope.fake(op.result))
    info = scope.program.analyses.extern_info.get(call.target)
    count = len(info.schema.returns) if info is not None else 0
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


def unpack(op: Unpack, scope: FunctionScope) -> None:
    """`operator.getitem` for each step of the path; an empty path is the result itself."""
    node = scope.value(op.source)
    tree = node.meta["val"]
    for number, step in enumerate(op.path):
        tree = tree[step] if tree is not None else None
        if number + 1 < len(op.path):
            node = scope.call(operator.getitem, node, step, val=tree)
    if op.path:
        scope.bind(op.result, operator.getitem, node, op.path[-1], val=tree)
    else:
        scope.bind(op.result, targets.same, node, val=tree)
    _check_result(op.result, scope)


def collective(op: CollectiveStart, scope: FunctionScope) -> None:
    """Functional collectives are operators whose results must be waited for; a list of tensors is taken apart."""
    info = scope.program.analyses.extern_info.get(op.target)
    listed = info is not None and [r.type for r in info.schema.returns] == ["Tensor[]"]
    if len(op.results) == 1 and not listed:
        _call(op, op.results[0], scope.fake(op.results[0]), scope)
    else:
        fakes = [scope.fake(result) for result in op.results]
        made = _call(op, None, fakes, scope)
        for number, (result, val) in enumerate(zip(op.results, fakes)):
            scope.bind(result, operator.getitem, made, number, val=val)
    for result in op.results:
        _check_result(result, scope)


def wait(op: Wait, scope: FunctionScope) -> None:
    """torch waits in an operator of its own."""
    source = scope.value(op.source)
    scope.bind(op.result, torch.ops._c10d_functional.wait_tensor.default, source, val=source.meta["val"])


def _check_result(value: Value, scope: FunctionScope) -> None:
    """Holds what an operator allocated against its declared layout, where the symbols in it have values.

    Nothing else stands between a wrong declaration and a kernel that writes where it should not.
    """
    type = value.type
    if not isinstance(type, TensorType) or not scope.program.options.check_results:
        return
    if not scope.known((*type.sizes, *type.strides)):
        return
    if scope.program.options.assertions and checked_next(scope.function.body, scope.position, value):
        return
    sizes, strides = scope.numbers(type.sizes), scope.numbers(type.strides)
    scope.call(targets.assert_layout, scope.nodes[value], list(sizes), list(strides), 0, f"%{value.name}")
