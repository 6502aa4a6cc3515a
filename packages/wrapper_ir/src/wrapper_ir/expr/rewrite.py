"""Substitution in expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wrapper_ir.expr.base import Apply, Atom, Expr
from wrapper_ir.expr.leaves import Sym
from wrapper_ir.expr.logic import apply


def substitute(e: Expr, mapping: Mapping[str | Expr, Expr], *, simplify: bool = True) -> Expr:
    """Replaces symbols (by name, of any kind) and sub-expressions of `e` simultaneously.

    Nodes above a replacement are rebuilt, by the smart constructors unless `simplify` is False. Other nodes
    are reused.
    """
    if not mapping:
        return e
    only_symbols = frozenset(key for key in mapping if isinstance(key, str))
    if len(only_symbols) == len(mapping) and not (only_symbols & e.free_symbols):
        return e

    def replace(node: Expr) -> Expr | None:
        replacement = mapping.get(node)
        return mapping.get(node.name) if replacement is None and type(node) is Sym else replacement

    return _rewrite(e, replace, simplify=simplify)


def map_atoms(e: Expr, use: Callable[[Expr], Expr], *, simplify: bool = True) -> Expr:
    """Replaces every atom of `e` by `use(atom)`."""
    if not e.free_atoms:
        return e

    def replace(node: Expr) -> Expr | None:
        return use(node) if isinstance(node, Atom) else None

    return _rewrite(e, replace, simplify=simplify)


def _rewrite(e: Expr, replace: Callable[[Expr], Expr | None], *, simplify: bool) -> Expr:
    results: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        result = results.get(node)
        if result is None:
            result = replace(node)
            if result is None:
                args = tuple(map(visit, node.args))
                result = node if args == node.args else rebuild(node, args, simplify=simplify)
            results[node] = result
        return result

    return visit(e)


def rebuild(e: Expr, args: tuple[Expr, ...], *, simplify: bool = True) -> Expr:
    """Returns the node `e` with other operands (as many as `e` has)."""
    if e.op is None:
        return e
    return apply(e.op, *args) if simplify else Apply(e.op, args)
