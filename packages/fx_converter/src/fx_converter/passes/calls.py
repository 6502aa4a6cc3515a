"""What calls are, as far as passes ask: numbers, windows, functions of bytes, or anything else."""

from __future__ import annotations

import enum
import operator
from typing import Any

import torch
from torch import Tensor, fx

from fx_converter import targets
from fx_converter._compat import is_composite, is_impure
from fx_converter.graph.numbers import CALLS
from fx_converter.kernels import LoadedTarget
from wrapper_ir_torch import EMPTY_REGISTERED, EMPTY_SYMMETRIC, FAST_EMPTY, FAST_VIEW

# Any in this file: targets and arguments of nodes
_aten = torch.ops.aten
_NUMBERS: frozenset[Any] = frozenset(
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
_LAYOUT: frozenset[Any] = frozenset(
    {_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_storage_offset.default}
)
_WINDOWS: frozenset[Any] = frozenset({FAST_VIEW, targets.window, _aten.as_strided.default})
_READERS: frozenset[Any] = frozenset(
    {
        targets.align, targets.assert_expr, targets.assert_finite, targets.assert_layout, targets.assert_alignment,
        targets.check_agreement, targets.check_groups, targets.check_inputs, targets.check_apart, targets.check_result, targets.check_storages, targets.check_written, targets.comment, targets.follow, targets.free, targets.same, targets.save_tensor,
        targets.show_line, targets.show_number, targets.show_tensor, targets.unshared, operator.getitem,
    }
)  # fmt: skip
"""Functions that write nothing, and whose results may live where their arguments do."""
_ORDER: frozenset[Any] = frozenset(
    {
        targets.barrier, targets.enter_device, targets.enter_memory_pool, targets.enter_profile, targets.enter_stream,
        targets.exit_device, targets.exit_scope, targets.exit_stream, targets.record_event, targets.sync_event, targets.wait_event,
    }
)  # fmt: skip
_EMPTY: frozenset[Any] = frozenset({EMPTY_REGISTERED, EMPTY_SYMMETRIC, *FAST_EMPTY.values()})
_Symbolic = bool | int | float | torch.SymBool | torch.SymInt | torch.SymFloat


class CallKind(enum.Enum):
    """What the result of a call depends on, beside its arguments."""

    NUMBER = "number"
    """Nothing: arithmetic, and parts of results."""
    LAYOUT = "layout"
    """Where a tensor lies, and how: sizes read from it, and windows of it."""
    BYTES = "bytes"
    """What its tensors hold when it is called."""
    ORDER = "order"
    """A device, a stream or an event: it stays where it is, and so does what is computed between two of them."""
    OTHER = "other"
    """It allocates, writes, draws, checks, or nobody knows what."""


def kind_of(node: fx.Node) -> CallKind:
    """Of a node that calls something."""
    target: Any = node.target
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
    if isinstance(target, torch._ops.OpOverload) and not is_impure(target) and "empty" not in target.name():  # type: ignore[no-untyped-call]  # torch leaves it so
        return CallKind.BYTES
    return CallKind.OTHER


def is_number(node: fx.Node) -> bool:
    """Whether the result is a number, symbolic or not."""
    return isinstance(node.meta.get("val"), _Symbolic)


def _is_nested(arg: Any) -> bool:
    return isinstance(arg, fx.Node) and isinstance(arg.meta.get("val"), list | tuple | dict)


def mentioned(arg: Any) -> list[fx.Node]:
    """The nodes in an argument."""
    found: list[fx.Node] = []
    fx.node.map_arg(arg, found.append)
    return found


def written(node: fx.Node) -> list[fx.Node]:
    """The arguments that a node may write, or give another storage."""
    target: Any = node.target
    if node.op in ("placeholder", "get_attr", "output"):
        return []
    if node.op == "call_function":
        if target in _READERS or target in _ORDER or target in _NUMBERS or target in _EMPTY:
            return []
        if target in _LAYOUT or target in _WINDOWS:
            return []
        schema = _schema(target)
        if schema is not None and (schema.is_mutable or not is_impure(target) or _draws(target)):
            return [x for said, arg in _bound(schema, node) if _writes(said) for x in mentioned(arg)]
    return list(node.all_input_nodes)


def _schema(target: Any) -> torch.FunctionSchema | None:
    if isinstance(target, LoadedTarget):
        return target.schema
    return target._schema if isinstance(target, torch._ops.OpOverload) else None


def _bound(schema: torch.FunctionSchema, node: fx.Node) -> list[tuple[Any, Any]]:
    """Each argument that is given, with what the schema says of it."""
    said = schema.arguments
    named = {argument.name: argument for argument in said}
    return [*zip(said, node.args), *((named[k], v) for k, v in node.kwargs.items() if k in named)]


def _writes(said: Any) -> bool:
    return said.alias_info is not None and bool(said.alias_info.is_write)


def _draws(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def shares_with(node: fx.Node) -> list[fx.Node]:
    """The arguments whose storage what a call returns may have. A result that nobody uses shares nothing."""
    target: Any = node.target
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
            return [x for said, arg in bound if _aliases(said) & {*returned, "*"} for x in mentioned(arg)]
        if not returned and _is_open(target):
            return []
    return list(node.all_input_nodes)


def _aliases(said: Any) -> set[str]:
    info = said.alias_info
    return set() if info is None else {*info.before_set, *info.after_set}


def _is_open(target: torch._ops.OpOverload) -> bool:
    """Whether an operator returns no view that its schema does not name: one of torch's own kernels."""
    if target.namespace != "aten" or _draws(target) or is_composite(target):
        return False
    return "unsafe" not in target.name()  # type: ignore[no-untyped-call]  # torch leaves it so


def is_tensor(node: fx.Node) -> bool:
    """Whether a node's value is a tensor, as its fake value says."""
    return isinstance(node.meta.get("val"), Tensor)
