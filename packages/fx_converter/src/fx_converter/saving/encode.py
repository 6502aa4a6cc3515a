"""Graphs to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

import torch
from torch import Tensor, fx
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

from fx_converter.errors import SavedGraphError
from fx_converter.graph.metadata import FakeValues
from fx_converter.kernels import NAMESPACE, LoadedTarget
from fx_converter.kernels.triton_form import TRITON_IDS
from fx_converter.nodes import Argument, Number, Symbolic
from fx_converter.saving.bounds import refuse_rebinding
from fx_converter.saving.functions import NAMES_OF_FUNCTIONS
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import print_expr
from wrapper_ir.expr.sympy_bridge import from_sympy
from wrapper_ir_torch import OpOverload

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | None"
META = (
    "value", "symbol", "kernel", "kernel_hash", "stack_trace", "from_nodes", "source_ops", "source_modules",
)  # fmt: skip
"""Entries of `node.meta` that are strings, or tuples of them."""


def encode_graph(
    module: fx.GraphModule, attribute: Callable[[str, object], Json], fakes: FakeValues
) -> dict[str, Json]:
    """Returns the nodes in order, and the result of `attribute(name, value)` for each attribute that they
    refer to.

    Raises SavedGraphError FX201 for a node whose target a file cannot name, FX205 for a call of an operator
    that replaces memory.
    """
    nodes = [_node(node, fakes) for node in module.graph.nodes]
    attributes: dict[str, Json] = {}
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module") and node.target not in attributes:
            path = str(node.target)
            attributes[path] = attribute(path, attrgetter(path)(module))
    return {"name": type(module).__name__, "attributes": attributes, "nodes": nodes}


def _node(node: fx.Node, fakes: FakeValues) -> Json:
    if node.op == "call_method":
        raise _unnamed(node, f"method {node.target!r}", "call the operator instead")
    entry: dict[str, Json] = {
        "op": node.op,
        "name": node.name,
        "target": _target(node) if node.op == "call_function" else str(node.target),
        "args": [_argument(arg, node) for arg in node.args],
        "kwargs": {
            name: _argument(arg, node) for name, arg in node.kwargs.items() if name not in _of_process(node)
        },
        "meta": {key: _strings(node.meta[key]) for key in META if key in node.meta},
    }
    if "val" in node.meta:
        entry["val"] = _value(node.meta["val"], fakes)
    return entry


def _of_process(node: fx.Node) -> tuple[str, ...]:
    """Returns the arguments that are valid in this process only."""
    return TRITON_IDS if node.target is triton_kernel_wrapper_mutation else ()


def _strings(value: str | tuple[str, ...]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def _unnamed(node: fx.Node, what: str, hint: str) -> SavedGraphError:
    return SavedGraphError("FX201", f"node {node.name}: a file cannot name {what}", hint=hint)


# --- what is called


def _target(node: fx.Node) -> dict[str, str]:
    target, has_kernel = node.target, "kernel_hash" in node.meta
    match target:
        case LoadedTarget():
            return {"kernel": target.hash, "form": "direct"}
        case torch._ops.OpOverload(namespace=namespace) if namespace == NAMESPACE and has_kernel:
            return {"kernel": node.meta["kernel_hash"], "form": "hop"}
        case torch._ops.OpOverload():
            return {"operator": _operator_name(target, node)}
        case _ if target is triton_kernel_wrapper_mutation and has_kernel:
            return {"kernel": node.meta["kernel_hash"], "form": "triton"}
        case torch._ops.HigherOrderOperator():
            return {"higher_order": target.name()}  # type: ignore[no-untyped-call]  # torch's
        case _ if callable(target) and target in NAMES_OF_FUNCTIONS:
            return {"function": NAMES_OF_FUNCTIONS[target]}
        case _:
            name = f"{getattr(target, '__name__', target)!r}"
            raise _unnamed(node, name, "register it as an operator (torch.library), and call that")


def _operator_name(target: OpOverload, node: fx.Node) -> str:
    name = f"{target._schema.name}.{target._overloadname}"
    if target is not torch.ops.aten.set_.source_Tensor:  # a loaded graph compares its layouts
        refuse_rebinding(name, f"node {node.name}")
    return name


def _argument(arg: Argument, node: fx.Node) -> Json:
    match arg:
        case fx.Node():
            return {"node": arg.name}
        case None | bool() | int() | str():
            return arg
        case float():
            return arg if math.isfinite(arg) else {"float": repr(arg)}
        case complex():
            return {"complex": [repr(arg.real), repr(arg.imag)]}
        case tuple():
            return {"tuple": [_argument(item, node) for item in arg]}
        case list():
            return [_argument(item, node) for item in arg]
        case dict():
            return {"dict": [[_argument(k, node), _argument(v, node)] for k, v in arg.items()]}
        case slice():
            return {"slice": [_argument(part, node) for part in (arg.start, arg.stop, arg.step)]}
        case torch.dtype() | torch.layout() | torch.memory_format():
            return {"torch": str(arg).removeprefix("torch.")}
        case torch.device():
            return {"device": str(arg)}
        case torch._ops.OpOverload():
            return {"operator": _operator_name(arg, node)}
        case _:
            raise _unnamed(
                node, f"argument {arg!r}", "pass numbers, strings, nodes and torch's own constants"
            )


# --- fake values


def _value(val: object, fakes: FakeValues) -> Json:
    match val:
        case Tensor():
            return {
                "dtype": str(val.dtype).removeprefix("torch."),
                "device": str(val.device),
                "sizes": [_number(n, fakes) for n in val.shape],
                "strides": [_number(n, fakes) for n in val.stride()],
            }
        case list() | tuple():
            kind = "list" if isinstance(val, list) else "tuple"
            return {kind: [_value(item, fakes) for item in val]}
        case dict():
            return {"dict": {str(k): _value(v, fakes) for k, v in val.items()}}
        case bool() | int() | float() | torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return {"number": _number(val, fakes)}
        case _:
            return None


def _number(n: Number, fakes: FakeValues) -> Json:
    """Returns a number, or the text of an expression over the program's symbols; None if it has no text."""
    if not isinstance(n, Symbolic):
        return n if not isinstance(n, float) or math.isfinite(n) else repr(n)
    try:
        return {"expr": print_expr(from_sympy(fakes.by_declared_name(n.node.expr)))}
    except ExpressionError:
        return None
