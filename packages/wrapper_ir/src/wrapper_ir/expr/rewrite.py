"""Replacing parts of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Expr
from wrapper_ir.expr.build import add, ceildiv, floordiv, max_, min_, mod, mul, pow_, truediv, where
from wrapper_ir.expr.logic import COMPARE_WITH, and_, convert, math_fn, not_, or_
from wrapper_ir.expr.nodes import (
    Add,
    And,
    Bool,
    CeilDiv,
    Cmp,
    Convert,
    Float,
    FloorDiv,
    Int,
    Item,
    MathFn,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    OffsetOf,
    Or,
    Pow,
    SizeOf,
    StrideOf,
    Sym,
    TrueDiv,
    Where,
)

__all__ = ["map_atoms", "rebuild", "substitute"]


def substitute(e: Expr, mapping: Mapping[str | Expr, Expr], *, simplify: bool = True) -> Expr:
    """`e` with symbols (by name, of any kind) and whole sub-expressions replaced, all at once.

    Nodes above a replacement are made anew, through the smart constructors unless `simplify` is False;
    everything else is kept as it is.
    """
    if not mapping:
        return e
    only_symbols = frozenset(key for key in mapping if isinstance(key, str))
    if len(only_symbols) == len(mapping) and not (only_symbols & e.free_symbols):
        return e

    def replace(node: Expr) -> Expr | None:
        found = mapping.get(node)
        return mapping.get(node.name) if found is None and isinstance(node, Sym) else found

    return _rewrite(e, replace, simplify=simplify)


def map_atoms(e: Expr, use: Callable[[Expr], Expr], *, simplify: bool = True) -> Expr:
    """`e` with `use(atom)` in the place of every SizeOf, StrideOf, OffsetOf and Item."""
    if not e.free_values:
        return e

    def replace(node: Expr) -> Expr | None:
        return use(node) if isinstance(node, SizeOf | StrideOf | OffsetOf | Item) else None

    return _rewrite(e, replace, simplify=simplify)


def _rewrite(e: Expr, replace: Callable[[Expr], Expr | None], *, simplify: bool) -> Expr:
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        result = done.get(node)
        if result is None:
            result = replace(node)
            if result is None:
                children = tuple(map(visit, node.children))
                result = node if children == node.children else rebuild(node, children, simplify=simplify)
            done[node] = result
        return result

    return visit(e)


def rebuild(e: Expr, children: tuple[Expr, ...], *, simplify: bool = True) -> Expr:
    """The node `e` over other children (as many as `e` has)."""
    match e:
        case Int() | Float() | Bool() | Sym() | SizeOf() | StrideOf() | OffsetOf() | Item():
            return e
        case Convert(op, _):
            return convert(op, *children) if simplify else Convert(op, *children)
        case MathFn(fn, _):
            return math_fn(fn, *children) if simplify else MathFn(fn, children)
        case Cmp(op, _, _):
            return COMPARE_WITH[op](*children) if simplify else Cmp(op, *children)
        case Add() | Mul() | Min() | Max() | And() | Or() if not simplify:
            return type(e)(children)
        case _:
            return _SMART[type(e)](*children) if simplify else _PLAIN[type(e)](*children)


_PLAIN: Mapping[type[Expr], Callable[..., Expr]] = {
    FloorDiv: FloorDiv,
    CeilDiv: CeilDiv,
    Mod: Mod,
    TrueDiv: TrueDiv,
    Pow: Pow,
    Where: Where,
    Not: Not,
}

_SMART: Mapping[type[Expr], Callable[..., Expr]] = {
    Add: add,
    Mul: mul,
    Min: min_,
    Max: max_,
    And: and_,
    Or: or_,
    FloorDiv: floordiv,
    CeilDiv: ceildiv,
    Mod: mod,
    TrueDiv: truediv,
    Pow: pow_,
    Where: where,
    Not: not_,
}
