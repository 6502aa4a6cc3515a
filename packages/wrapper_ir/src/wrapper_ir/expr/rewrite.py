"""Replacing parts of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Apply, Atom, Expr
from wrapper_ir.expr.leaves import Sym
from wrapper_ir.expr.logic import apply


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
        return mapping.get(node.name) if found is None and type(node) is Sym else found

    return _rewrite(e, replace, simplify=simplify)


def map_atoms(e: Expr, use: Callable[[Expr], Expr], *, simplify: bool = True) -> Expr:
    """`e` with `use(atom)` in the place of every atom."""
    if not e.free_atoms:
        return e

    def replace(node: Expr) -> Expr | None:
        return use(node) if isinstance(node, Atom) else None

    return _rewrite(e, replace, simplify=simplify)


def _rewrite(e: Expr, replace: Callable[[Expr], Expr | None], *, simplify: bool) -> Expr:
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        result = done.get(node)
        if result is None:
            result = replace(node)
            if result is None:
                args = tuple(map(visit, node.args))
                result = node if args == node.args else rebuild(node, args, simplify=simplify)
            done[node] = result
        return result

    return visit(e)


def rebuild(e: Expr, args: tuple[Expr, ...], *, simplify: bool = True) -> Expr:
    """The node `e` over other operands (as many as `e` has)."""
    if e.op is None:
        return e
    return apply(e.op, *args) if simplify else Apply(e.op, args)
