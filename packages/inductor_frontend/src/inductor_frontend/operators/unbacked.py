"""Defines unbacked symbols: sizes of results, `.item()`, dynamic slices and selections."""

from __future__ import annotations

from typing import Any

import sympy
from torch._inductor import ir
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    resolve_unbacked_bindings,
)
from torch.utils import _pytree as pytree
from torch.utils._pytree import SequenceKey

from inductor_frontend.errors import ConversionError
from inductor_frontend.operators.results import unpack_all, unpack_number
from inductor_frontend.scope.scope import Scope
from wrapper_ir.expr import (
    Expr,
    Int,
    Sym,
    add,
    and_,
    eq,
    floordiv,
    ge,
    le,
    lt,
    max_,
    min_,
    mod,
    mul,
    neg,
    sub,
    to_bool,
    where,
)
from wrapper_ir.ir import Item, OffsetOf, SizeOf, StrideOf, SymbolDef, Value

# Any in this file: Inductor nests result nodes in lists, and key paths contain keys of many classes.
_ZERO = Int(0)
_ONE = Int(1)


def define_unbacked(scope: Scope, node: Any, result: Value | None) -> None:  # Any: fallbacks and control flow
    """Defines the unbacked symbols of a call's results, each from the key path that Inductor bound it to."""
    bindings = resolve_unbacked_bindings(scope.graph.sizevars.shape_env, node.unbacked_bindings)
    if not bindings:
        return
    # Numbers first: types of tensors beside them may mention them.
    numbers = {s: p for s, p in bindings.items() if _is_number_in(node.outputs, tuple(p))}
    for symbol, path in numbers.items():
        assert result is not None
        steps = tuple(key.idx for key in path if isinstance(key, SequenceKey))
        scope.symbols.define(symbol, Item(unpack_number(scope, node, result, steps)))
    unpack_all(scope, node.outputs)
    for symbol, path in bindings.items():
        if symbol not in numbers:
            value, rest = _result_at(scope, node, result, tuple(path))
            scope.symbols.define(symbol, _read(value, rest))


def _is_number_in(outputs: object, path: tuple[pytree.KeyEntry, ...]) -> bool:
    """Returns whether a path leads to a number inside a nested result."""
    for key in path:
        if not isinstance(key, SequenceKey) or not isinstance(outputs, (list, tuple)):
            return False
        outputs = outputs[key.idx]
    return bool(path) and isinstance(outputs, sympy.Expr)


def _result_at(
    scope: Scope, node: Any, result: Value | None, path: tuple[pytree.KeyEntry, ...]
) -> tuple[Value, tuple[pytree.KeyEntry, ...]]:
    """Returns the tensor that a key path starts from, and the rest of the path."""
    output: Any = node.outputs
    only = len(node.outputs) == 1 and isinstance(output[0], ir.MultiOutput) and not output[0].indices
    if only:
        output = output[0]
    while path and isinstance(path[0], SequenceKey) and isinstance(output, (list, tuple)):
        output, path = output[path[0].idx], path[1:]
    if isinstance(output, ir.MultiOutput):
        return scope.value(output.get_name()), path
    if result is None:
        raise ConversionError("FE304", f"{node.get_name()} defines symbols, but has no result")
    return result, path


def _read(value: Value, path: tuple[pytree.KeyEntry, ...]) -> Expr:
    match path:
        case ():
            return Item(value)
        case (CallMethodKey(name="size"), SequenceKey(idx=dim)):
            return SizeOf(value, dim)
        case (CallMethodKey(name="stride"), SequenceKey(idx=dim)):
            return StrideOf(value, dim)
        case (CallMethodKey(name="storage_offset"),):
            return OffsetOf(value)
        case (*head, DivideByKey(divisor=divisor)) if isinstance(divisor, int):
            return floordiv(_read(value, tuple(head)), Int(divisor))
        case (*head, ConvertIntKey()):
            return where(to_bool(_read(value, tuple(head))), _ONE, _ZERO)
        case _:
            raise ConversionError("FE304", f"cannot read a symbol at {path} of {value.name}")


def dynamic_scalar(scope: Scope, node: ir.DynamicScalar) -> None:
    """Defines the symbol of an `.item()` of a one-element tensor, optionally converted from bool or
    divided."""
    source = node.inputs[0]
    assert isinstance(source, ir.IRNode)
    item = Item(scope.reference(source))
    match tuple(node.keypath):
        case ():
            scope.symbols.define(node.sym, item)
        case (ConvertIntKey(),):
            scope.symbols.define(node.sym, where(to_bool(item), _ONE, _ZERO))
        case (DivideByKey(divisor=divisor),):
            whole = f"{node.sym.name}_undivided"
            by = scope.expr(divisor)
            scope.program.symbol(SymbolDef(name=whole, backed=False))
            scope.function.define(whole, item)
            condition = eq(mod(Sym(whole), by), _ZERO)
            scope.guards.assert_that(condition, f"{whole} not divisible by {divisor}")
            scope.symbols.define(node.sym, floordiv(Sym(whole), by))
        case path:
            raise ConversionError("FE304", f"cannot read symbol {node.sym} at {path}")


def select_offset(scope: Scope, node: ir.DynamicSelectStorageOffset) -> None:
    """Defines the storage offset of a selection or of a slice (clamped). The index may be negative."""
    index, size = scope.expr(node.index), scope.expr(node.size)
    wrapped = where(lt(index, _ZERO), add(index, size), index)
    if node.clamp:
        wrapped = max_(_ZERO, min_(size, wrapped))
    else:
        # Inductor does not check the index, and kernels read through the offset unchecked.
        condition = and_(le(neg(size), index), lt(index, size))
        scope.guards.assert_that(condition, "a selected index is out of range")
    offset = add(scope.expr(node.base_offset), mul(scope.expr(node.base_dim_stride), wrapped))
    scope.symbols.define(_symbol(node.unbacked_offset_symbol), offset)


def slice_size(scope: Scope, node: ir.DynamicSliceSize) -> None:
    """Defines the size of a slice whose bounds may be absent, negative or out of range."""
    size = scope.expr(node.size)

    def clamp(bound: object, default: Expr) -> Expr:
        if bound is None:
            return default
        position = scope.expr(bound)
        inside = max_(_ZERO, min_(position, size))
        from_end = max_(_ZERO, min_(add(position, size), size))
        return where(ge(position, _ZERO), inside, from_end)

    step = scope.expr(node.step)
    length = sub(clamp(node.end, size), clamp(node.start, _ZERO))
    steps = floordiv(sub(add(length, step), _ONE), step)
    scope.symbols.define(_symbol(node.unbacked_size_symbol), max_(_ZERO, steps))


def _symbol(symbol: object) -> sympy.Symbol:
    assert isinstance(symbol, sympy.Symbol)
    return symbol


def assert_scalar(scope: Scope, node: ir.AssertScalar) -> None:
    """Emits a runtime assertion of the model."""
    scope.guards.assert_that(scope.expr(node.scalar), "" if node.msg == str(node.scalar) else node.msg)
