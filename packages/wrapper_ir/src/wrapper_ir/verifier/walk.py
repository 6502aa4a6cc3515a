"""Runs the checks: over the program, then over each function in two stages, one walk over the ops a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from wrapper_ir.aliasing import analyse_aliasing
from wrapper_ir.analysis.sizes import declared_size
from wrapper_ir.expr import Expr
from wrapper_ir.expr.rewrite import map_atoms
from wrapper_ir.index import ProgramIndex
from wrapper_ir.ops import AssertExpr, Define, OpBase
from wrapper_ir.program import Function, Program
from wrapper_ir.verifier.checks import (
    FIRST,
    SECOND,
    check_calls,
    check_externs,
    check_kernels,
    check_program,
)
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers
from wrapper_ir.verifier.findings import Findings
from wrapper_ir.verifier.scan import scan, scan_types
from wrapper_ir.verifier.typeinfo import TypeTable

__all__ = ["check_all"]


def check_all(program: Program) -> Findings:
    """All findings. Later stages run only where earlier ones found nothing, so that each may rely on them."""
    findings = Findings(program)
    _guarded(lambda: _check(program, findings), findings, None)
    return findings


def _check(program: Program, findings: Findings) -> None:
    index = ProgramIndex(program)
    types = TypeTable()
    check_program(index, types, findings)
    check_externs(index, findings)
    check_kernels(index, findings)
    if not findings:
        check_calls(index, findings)
    if findings:
        return
    launched: dict[tuple[object, ...], tuple[Expr, ...]] = {}
    checked = [FunctionFacts(function, index, findings, types, launched) for function in program.functions]
    for facts in checked:
        _guarded(partial(_first, facts), findings, facts.function)
    # Effects of calls come from the callees' bodies: the second stage needs them all to be in order.
    for facts in () if findings else checked:
        _guarded(partial(_second, facts), findings, facts.function)


def _guarded(check: Callable[[], None], findings: Findings, function: Function | None) -> None:
    """A program object may hold anything at all; what no check foresaw is a finding too, never an exception."""
    try:
        check()
    except Exception as error:  # see above
        if not findings:
            findings.add("WIR001", f"{type(error).__name__}: {error}", function)


def _first(facts: FunctionFacts) -> None:
    types = facts.types
    for position, op in enumerate(facts.function.body):
        facts.scanned.append(scan(op))
        made = scan_types(op)
        facts.results.append(made)
        for value in made:
            info = types(value.type)
            if info.exprs or info.problems:
                facts.special.setdefault(position, []).append((value, info))
    facts.classes = set(map(type, facts.function.body))
    _walk(facts, FIRST)


def _second(facts: FunctionFacts) -> None:
    facts.aliasing = analyse_aliasing(facts.function, facts.index)
    _walk(facts, (_Assumptions, *SECOND))


def _walk(facts: FunctionFacts, checks: Sequence[type[Check]]) -> None:
    instances = [cls(facts) for cls in checks]
    always = [h for h in (c.every() for c in instances) if h is not None]
    by_class: dict[type[OpBase], list[Handler]] = {}
    for check in instances:
        for cls, handler in check.handlers().items():
            by_class.setdefault(cls, []).append(handler)
    table: dict[type[OpBase], tuple[Handler, ...]] = {}
    for position, op in enumerate(facts.function.body):
        cls = type(op)
        handlers = table.get(cls)
        if handlers is None:
            handlers = table[cls] = (*always, *by_class.get(cls, ()))
        for handler in handlers:
            handler(position, op)
    for check in instances:
        check.finish()


class _Assumptions(Check):
    """Tells the proofs what the program defines and asserts before each op."""

    name = "assumptions"

    def handlers(self) -> Handlers:
        return {Define: self.define, AssertExpr: self.assume}

    def define(self, position: int, op: Define) -> None:
        expr = map_atoms(op.expr, declared_size)
        if not expr.free_values:
            self.facts.proofs.define(op.symbol, expr)

    def assume(self, position: int, op: AssertExpr) -> None:
        self.facts.proofs.assume(op.condition)
