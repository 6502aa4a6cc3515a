"""Runs the checks: over the program, then over each function in two stages, one walk over the ops a stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import declared_size
from wrapper_ir.expr.rewrite import map_atoms
from wrapper_ir.verifier.checks import FIRST, SECOND, check_calls, check_externs, check_kernels, check_program
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers, Shared
from wrapper_ir.verifier.findings import Findings
from wrapper_ir.verifier.obligations import Obligations
from wrapper_ir.verifier.scan import scan


def check_all(
    analyses: Analyses, ops: ir.OpSet = ir.OPS, trusted: frozenset[str] = frozenset()
) -> tuple[Findings, Obligations]:
    """All findings, and the obligations of a valid program.

    Later stages run only if earlier ones found nothing, so that they may rely on them. Symbols in `trusted`
    are in their declared ranges whenever main runs.
    """
    return analyses.get(_CheckAll(ops, trusted))


@dataclass(frozen=True, slots=True)
class _CheckAll:
    ops: ir.OpSet
    trusted: frozenset[str]

    def __call__(self, analyses: Analyses) -> tuple[Findings, Obligations]:
        findings, obligations = Findings(analyses.program), Obligations()
        shared = Shared(analyses, findings, obligations=obligations, trusted=self.trusted)
        _guarded(partial(_check, shared, self.ops), findings, None)
        return findings, obligations


def _check(shared: Shared, ops: ir.OpSet) -> None:
    analyses, findings = shared.analyses, shared.findings
    check_program(analyses, shared.types, findings)
    check_externs(analyses, findings)
    check_kernels(analyses, findings)
    if not findings:
        check_calls(analyses, findings)
    if findings:
        return
    checked = [FunctionFacts(function, shared) for function in analyses.program.functions]
    for facts in checked:
        _guarded(partial(_first, facts, ops), findings, facts.function)
    # effects of calls come from the callees' bodies, so the second stage needs all of them to be valid
    for facts in () if findings else checked:
        _guarded(partial(_second, facts), findings, facts.function)


def _guarded(check: Callable[[], None], findings: Findings, function: ir.Function | None) -> None:
    """Runs a check. A program may contain any object, so an exception is reported as a finding."""
    try:
        check()
    except Exception as error:  # any object may be in a program
        if not findings:
            findings.add("WIR001", f"{type(error).__name__}: {error}", function)


def _first(facts: FunctionFacts, ops: ir.OpSet) -> None:
    types = facts.types
    facts.classes = set(map(type, facts.function.body))
    for cls in facts.classes - ops.specs.keys():
        facts.report("WIR001", f"{cls.__name__} is not an op of this IR")
        return
    for position, op in enumerate(facts.function.body):
        scanned = scan(op)
        facts.scanned.append(scanned)
        facts.results.append(scanned[2])
        for value in scanned[2]:
            info = types(value.type)
            if info.exprs or info.problems:
                facts.special.setdefault(position, []).append((value, info))
                if info.problems:
                    facts.wrong.append((position, value))
        if scanned[1]:
            facts.symbolic = True
    facts.symbolic |= bool(facts.special)
    _walk(facts, FIRST)


def _second(facts: FunctionFacts) -> None:
    facts.aliasing = facts.analyses.aliasing(facts.function)
    _walk(facts, (_Assumed, *SECOND))


def _walk(facts: FunctionFacts, checks: Sequence[type[Check]]) -> None:
    instances = [cls(facts) for cls in checks]
    always = [h for h in (c.every() for c in instances) if h is not None]
    by_class: dict[type[ir.OpBase], list[Handler]] = {}
    for check in instances:
        for cls, handler in check.handlers().items():
            by_class.setdefault(cls, []).append(handler)
    table: dict[type[ir.OpBase], tuple[Handler, ...]] = {}
    for position, op in enumerate(facts.function.body):
        cls = type(op)
        handlers = table.get(cls)
        if handlers is None:
            handlers = table[cls] = (*always, *by_class.get(cls, ()))
        for handler in handlers:
            handler(position, op)
    for check in instances:
        check.finish()


class _Assumed(Check):
    """Adds the program's definitions and assertions to the proofs, before each op that follows them."""

    def handlers(self) -> Handlers:
        return {ir.Define: self.define, ir.AssertExpr: self.assume}

    def define(self, position: int, op: ir.Define) -> None:
        self.facts.proofs.define(op.symbol, op.expr, map_atoms(op.expr, declared_size))

    def assume(self, position: int, op: ir.AssertExpr) -> None:
        self.facts.proofs.assume(op.condition)
