"""Classification of calls for passes: numbers, windows, functions of bytes, and others."""

from __future__ import annotations

import enum
import operator

import torch
from torch import Tensor, fx

from fx_converter import targets
from fx_converter._compat import is_composite, is_impure
from fx_converter.graph.numbers import CALLS
from fx_converter.kernels import LoadedTarget
from fx_converter.nodes import Argument, Number, Target
from wrapper_ir_torch import EMPTY_REGISTERED, EMPTY_SYMMETRIC, FAST_EMPTY, FAST_VIEW, OpOverload

_aten = torch.ops.aten
_NUMBERS: frozenset[object] = frozenset(
    {
        operator.neg,
        targets.both,
        targets.either,
        targets.int64,
        targets.partial_call,
        targets.total_call,
        *CALLS.values(),
    }
)
_LAYOUT: frozenset[object] = frozenset(
    {_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_storage_offset.default}
)
_WINDOWS: frozenset[object] = frozenset({FAST_VIEW, targets.window, _aten.as_strided.default})
_READERS: frozenset[object] = frozenset(
    {
        targets.align, targets.assert_expr, targets.assert_finite, targets.assert_layout,
        targets.assert_alignment, targets.check_agreement, targets.check_groups, targets.check_inputs,
        targets.check_apart, targets.check_result, targets.check_storages, targets.check_written,
        targets.comment, targets.follow, targets.free, targets.same, targets.save_tensor, targets.show_line,
        targets.show_number, targets.show_tensor, targets.unshared, operator.getitem,
    }
)  # fmt: skip
"""Functions that write nothing, and whose results may alias their arguments."""
_ORDER: frozenset[object] = frozenset(
    {
        targets.barrier, targets.enter_device, targets.enter_memory_pool, targets.enter_profile,
        targets.enter_stream, targets.exit_device, targets.exit_scope, targets.exit_stream,
        targets.record_event, targets.sync_event, targets.wait_event,
    }
)  # fmt: skip
_EMPTY: frozenset[object] = frozenset({EMPTY_REGISTERED, EMPTY_SYMMETRIC, *FAST_EMPTY.values()})


class CallKind(enum.Enum):
    """The state that the result of a call depends on, besides its arguments."""

    NUMBER = "number"
    """Nothing: arithmetic, and parts of results."""
    LAYOUT = "layout"
    """Address and layout of a tensor: sizes read from it, and windows of it."""
    BYTES = "bytes"
    """The elements of its tensors at the time of the call."""
    ORDER = "order"
    """A device, a stream or an event: neither it nor the calls between two of them are moved."""
    OTHER = "other"
    """It allocates, writes, draws, checks, or has unknown effects."""


def kind_of(node: fx.Node) -> CallKind:
    """Classifies a node."""
    target = node.target
    if node.op != "call_function":
        return CallKind.OTHER
    if target in _ORDER:
        return CallKind.ORDER
    if target in _LAYOUT or target in _WINDOWS or target is targets.same:
        return CallKind.LAYOUT
    if target is operator.getitem:
        return CallKind.NUMBER if _is_nested(node.args[0]) else CallKind.OTHER
    if target in _NUMBERS:
        numbers = all(is_number(x) for x in (node, *node.all_input_nodes))
        return CallKind.NUMBER if numbers else CallKind.OTHER
    if isinstance(target, torch._ops.OpOverload) and not is_impure(target):
        name = target.name()  # type: ignore[no-untyped-call]  # torch's
        return CallKind.OTHER if "empty" in name else CallKind.BYTES
    return CallKind.OTHER


def is_number(node: fx.Node) -> bool:
    """Returns whether the result is a number, symbolic or not."""
    return isinstance(node.meta.get("val"), Number)


def _is_nested(arg: Argument) -> bool:
    return isinstance(arg, fx.Node) and isinstance(arg.meta.get("val"), list | tuple | dict)


def mentioned(arg: Argument) -> list[fx.Node]:
    """Returns the nodes in an argument."""
    nodes: list[fx.Node] = []
    fx.node.map_arg(arg, nodes.append)
    return nodes


def written(node: fx.Node) -> list[fx.Node]:
    """Returns the arguments that a node may write, or give another storage."""
    target = node.target
    if node.op in ("placeholder", "get_attr", "output"):
        return []
    if node.op == "call_function" and callable(target):
        if target in _READERS or target in _ORDER or target in _NUMBERS or target in _EMPTY:
            return []
        if target in _LAYOUT or target in _WINDOWS:
            return []
        schema = _schema(target)
        if schema is not None and (schema.is_mutable or not is_impure(target) or _draws(target)):
            return [x for p, arg in _bound(schema, node) if _writes(p) for x in mentioned(arg)]
    return list(node.all_input_nodes)


def _schema(target: Target | str) -> torch.FunctionSchema | None:
    match target:
        case LoadedTarget():
            return target.schema
        case torch._ops.OpOverload():
            return target._schema
        case _:
            return None


def _bound(schema: torch.FunctionSchema, node: fx.Node) -> list[tuple[torch.Argument, Argument]]:
    """Returns the arguments of a call, each with its parameter in the schema."""
    parameters = schema.arguments
    by_name = {parameter.name: parameter for parameter in parameters}
    return [*zip(parameters, node.args), *((by_name[k], v) for k, v in node.kwargs.items() if k in by_name)]


def _writes(parameter: torch.Argument) -> bool:
    return parameter.alias_info is not None and bool(parameter.alias_info.is_write)


def _draws(target: Target | str) -> bool:
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def shares_with(node: fx.Node) -> list[fx.Node]:
    """Returns the arguments that the result of a call may share storage with; none for an unused result."""
    target = node.target
    if (
        node.op in ("placeholder", "get_attr", "output")
        or not node.users
        or is_number(node)
        or target in _EMPTY
    ):
        return []
    if isinstance(target, torch._ops.OpOverload):
        returned = {a for ret in target._schema.returns if ret.alias_info for a in ret.alias_info.before_set}
        if "*" not in returned and all(ret.alias_info for ret in target._schema.returns):
            bound = _bound(target._schema, node)
            return [x for p, arg in bound if _aliases(p) & {*returned, "*"} for x in mentioned(arg)]
        if not returned and _declares_views(target):
            return []
    return list(node.all_input_nodes)


def _aliases(parameter: torch.Argument) -> set[str]:
    info = parameter.alias_info
    return set() if info is None else {*info.before_set, *info.after_set}


def _declares_views(target: OpOverload) -> bool:
    """Returns whether an operator returns no view that its schema omits: one of torch's own kernels."""
    if target.namespace != "aten" or _draws(target) or is_composite(target):
        return False
    return "unsafe" not in target.name()  # type: ignore[no-untyped-call]  # torch leaves it so


def is_tensor(node: fx.Node) -> bool:
    """Returns whether a node's fake value is a tensor."""
    return isinstance(node.meta.get("val"), Tensor)
