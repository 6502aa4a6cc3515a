"""Symbols: numbers read from tensors, and computed from other numbers."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from fx_converter.graph.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.expr import Apply, Expr, Int, SymKind
from wrapper_ir.expr import operators as ops
from wrapper_ir_lowering.steps import Define

_aten = torch.ops.aten


def define(step: Define, scope: FunctionScope) -> None:
    """A symbol is the node that computes it, which has its name if nothing else needed the same number before."""
    made = _number(step.expr, scope)
    if isinstance(made, fx.Node) and "symbol" not in made.meta and "value" not in made.meta:
        made.meta["symbol"] = step.symbol
        made.meta["val"] = scope.program.fakes.symbol(step.symbol)
        scope.rename(made, step.symbol)
    scope.symbols[step.symbol] = made


def _number(e: Expr, scope: FunctionScope) -> Any:  # Any: a number, or a node of one
    """As `scope.number`; a bool that is wanted as an int is read as one."""
    match e:
        case Apply(ops.TO_INT, (ir.Item(value),)) | Apply(ops.WHERE, (ir.Item(value), Int(1), Int(0))) if (
            _is_bool(value)
        ):
            return _bool_item(value, scope)
        case _:
            return scope.number(e)


def read_atom(e: Expr, scope: FunctionScope) -> Any:  # Any: a node, or what a parameter holds
    """The node that reads a size, a stride, an offset or an element."""
    match e:
        case ir.SizeOf(value, dim):
            return _read(_aten.sym_size.int, value, (dim,), scope)
        case ir.StrideOf(value, dim):
            return _read(_aten.sym_stride.int, value, (dim,), scope)
        case ir.OffsetOf(value):
            return _read(_aten.sym_storage_offset.default, value, (), scope)
        case ir.Item(value):
            return _item(value, scope)
        case _:
            raise scope.invalid(f"{e} has no value here")


def _read(target: Any, value: Any, rest: tuple[int, ...], scope: FunctionScope) -> fx.Node:
    assert isinstance(value, ir.Value)
    node = scope.value(value)
    fake = node.meta["val"]
    return scope.call(target, node, *rest, val=None if fake is None else target(fake, *rest))


def _is_bool(value: Any) -> bool:
    return ir.is_tensor(value) and value.type.dtype is ir.DType.BOOL


def _item(value: Any, scope: FunctionScope) -> fx.Node:
    """The value of a number, or of a tensor's one element."""
    node = scope.value(value)
    if not ir.is_tensor(value):
        return node
    if _is_bool(value):
        number = _bool_item(value, scope)
        return scope.call(
            operator.ne, number, 0, val=scope.program.fakes.apply(operator.ne, number.meta["val"], 0)
        )
    return scope.call(_aten.item.default, node, val=scope.program.fakes.unknown(ir.Item(value).kind))


def _bool_item(value: Any, scope: FunctionScope) -> fx.Node:
    """A bool's element as 0 or 1."""
    node = scope.value(value)
    type = value.type
    whole = ir.TensorType(dtype=ir.DType.I64, sizes=type.sizes, strides=type.strides, device=type.device)
    number = scope.call(_aten.where.Scalar, node, 1, 0, val=scope.program.fakes.tensor(whole))
    return scope.call(_aten.item.default, number, val=scope.program.fakes.unknown(SymKind.INT))
