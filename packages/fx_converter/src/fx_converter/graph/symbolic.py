"""Symbols: numbers that are read from tensors, or computed from other numbers."""

from __future__ import annotations

import operator
from typing import TypeGuard

import torch
from torch import fx

from fx_converter.graph.scope import FunctionScope, NodeNumber
from fx_converter.nodes import Target
from wrapper_ir import ir
from wrapper_ir.expr import Apply, Expr, Int, SymKind
from wrapper_ir.expr import operators as ops
from wrapper_ir_lowering.steps import Define

_aten = torch.ops.aten


def define(step: Define, scope: FunctionScope) -> None:
    """Binds a symbol to the node that computes it. The node takes the symbol's name unless another symbol or
    value has the same node."""
    number = _number(step.expr, scope)
    if isinstance(number, fx.Node) and "symbol" not in number.meta and "value" not in number.meta:
        number.meta["symbol"] = step.symbol
        number.meta["val"] = scope.program.fakes.symbol(step.symbol)
        scope.rename(number, step.symbol)
    scope.symbols[step.symbol] = number


def _number(e: Expr, scope: FunctionScope) -> NodeNumber:
    """Returns `scope.number`, but reads a bool that is converted to an int as 0 or 1."""
    match e:
        case Apply(ops.TO_INT, (ir.Item(ir.Value() as value),)) | Apply(
            ops.WHERE, (ir.Item(ir.Value() as value), Int(1), Int(0))
        ) if _is_bool(value):
            return _bool_item(value, scope)
        case _:
            return scope.number(e)


def read_atom(e: Expr, scope: FunctionScope) -> fx.Node:
    """Returns the node that reads a size, a stride, an offset or an element."""
    match e:
        case ir.SizeOf(ir.Value() as value, dim):
            return _read(_aten.sym_size.int, value, (dim,), scope)
        case ir.StrideOf(ir.Value() as value, dim):
            return _read(_aten.sym_stride.int, value, (dim,), scope)
        case ir.OffsetOf(ir.Value() as value):
            return _read(_aten.sym_storage_offset.default, value, (), scope)
        case ir.Item(ir.Value() as value):
            return _item(value, scope)
        case _:
            raise scope.invalid(f"{e} has no value here")


def _read(target: Target, value: ir.Value, rest: tuple[int, ...], scope: FunctionScope) -> fx.Node:
    node = scope.value(value)
    fake = node.meta["val"]
    return scope.call(target, node, *rest, val=None if fake is None else target(fake, *rest))


def _is_bool(value: ir.Value) -> TypeGuard[ir.Value[ir.TensorType]]:
    return ir.is_tensor(value) and value.type.dtype is ir.DType.BOOL


def _item(value: ir.Value, scope: FunctionScope) -> fx.Node:
    """Returns the value of a number, or the element of a tensor with one."""
    node = scope.value(value)
    if not ir.is_tensor(value):
        return node
    if _is_bool(value):
        number = _bool_item(value, scope)
        return scope.call(
            operator.ne, number, 0, val=scope.program.fakes.apply(operator.ne, number.meta["val"], 0)
        )
    return scope.call(_aten.item.default, node, val=scope.program.fakes.unknown(ir.Item(value).kind))


def _bool_item(value: ir.Value[ir.TensorType], scope: FunctionScope) -> fx.Node:
    """Returns the element of a bool tensor as 0 or 1."""
    node = scope.value(value)
    type = value.type
    whole = ir.TensorType(dtype=ir.DType.I64, sizes=type.sizes, strides=type.strides, device=type.device)
    number = scope.call(_aten.where.Scalar, node, 1, 0, val=scope.program.fakes.tensor(whole))
    return scope.call(_aten.item.default, number, val=scope.program.fakes.unknown(SymKind.INT))
