"""Run-time checks about symbols: kept as captured, each once, in the author's words where there are any."""

from __future__ import annotations

from dataclasses import replace

from inductor_frontend.guards.check_table import key_of
from inductor_frontend.scope.scope import Scope
from wrapper_ir.expr import Bool, Expr
from wrapper_ir.ops import AssertExpr, Provenance

__all__ = ["assert_that"]


def assert_that(scope: Scope, condition: Expr, message: str = "", prov: Provenance | None = None) -> None:
    """Appends a check unless this function has made one that says the same. The model's own form, message and place
    come first, where it has made this check itself."""
    if not scope.options.scalar_asserts or condition == Bool(True):
        return
    prov = scope.function.prov if prov is None else prov
    keys = {key_of(condition)}
    found = scope.shared.checks.find(condition, scope.symbols.known)
    if found is not None:
        condition, check = found
        keys.add(key_of(condition))
        message = check.message or message
        prov = replace(prov, locations=(scope.provenance.location(check.place),))
    done = scope.symbols.asserted & keys
    scope.symbols.asserted.update(keys)
    if done:
        return
    for name in sorted(condition.free_symbols):
        scope.symbols.require(name)
    scope.function.append(AssertExpr(condition=condition, message=message, prov=prov))
