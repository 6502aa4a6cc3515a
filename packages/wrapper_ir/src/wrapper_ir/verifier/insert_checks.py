"""Inserts assertions for bounds that are known only at run time, so that every engine makes the same
checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.alignment import relied_pointers
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Sym, and_, bounds, ge, le, print_expr
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.verifier.alignment_checks import alignment_checks
from wrapper_ir.verifier.layout_checks import layout_checks, output_checks
from wrapper_ir.verifier.obligations import Obligation, Obligations, Side
from wrapper_ir.verifier.walk import check_all

_SILENT = (ir.AssertExpr, ir.AssertLayout)
_Check = ir.AssertExpr | ir.AssertLayout
_Checks = Mapping[int, list[_Check]]
"""New assertions, by the position of the op to insert them before."""


def insert_checks(
    program: ir.Program, guarded: ir.Guarded = ir.NOT_GUARDED, analyses: Analyses | None = None
) -> ir.Program:
    """Adds an assertion for each open bound of a program, after the last definition of the bound's symbols.

    Declared ranges of `guarded` symbols are assumed. An invalid program is returned unchanged.
    """
    checks = _checks(Analyses.of(program, analyses), guarded)
    return program.with_functions(_inserted(f, checks[f.name]) for f in program.functions)


def missing_checks(
    program: ir.Program, guarded: ir.Guarded = ir.NOT_GUARDED, analyses: Analyses | None = None
) -> tuple[_Check, ...]:
    """The assertions that `insert_checks` would add."""
    by_function = _checks(Analyses.of(program, analyses), guarded)
    return tuple(op for checks in by_function.values() for _, ops in sorted(checks.items()) for op in ops)


@paused_collection()
def _checks(analyses: Analyses, guarded: ir.Guarded) -> Mapping[str, _Checks]:
    """New assertions by function."""
    program = analyses.program
    if not program.symbols and not analyses.get(relied_pointers):  # constant bounds are never open
        return {f.name: _by_position(output_checks(f, analyses)) for f in program.functions}
    findings, obligations = check_all(analyses, trusted=guarded.symbols)
    if findings:
        return {f.name: {} for f in program.functions}
    symbols = analyses.symbols
    unchecked = {name: s for name, s in symbols.items() if name not in guarded.symbols}
    return {
        f.name: _of_function(f, analyses, obligations, unchecked if f is program.main else symbols)
        for f in program.functions
    }


def _by_position(checks: Iterable[tuple[int, _Check]]) -> _Checks:
    by_position: dict[int, list[_Check]] = {}
    for position, check in checks:
        by_position.setdefault(position, []).append(check)
    return by_position


def _of_function(
    function: ir.Function, analyses: Analyses, obligations: Obligations, symbols: Mapping[str, ir.SymbolDef]
) -> _Checks:
    """Checks of layouts come first, because bounds depend on them."""
    checks: list[tuple[int, _Check]] = [
        *layout_checks(function, analyses),
        *alignment_checks(function, analyses),
    ]
    defined: dict[str, int] = {}
    for position, op in function.positions_of(ir.Define):
        defined[op.symbol] = position
        sides, symbol = obligations.ranges.get(op.symbol), symbols.get(op.symbol)
        check = _range_check(op, symbol, sides) if sides and symbol is not None else None
        if check is not None:
            checks.append((_after(function, position, len(function.body)), check))
    for obligation in obligations.found:
        if obligation.function == function.name:
            last = max((defined.get(s, -1) for s in obligation.condition.free_symbols), default=-1)
            place = _after(function, last, obligation.position)
            checks.append((place, _check(obligation, function)))
    return _by_position(checks)


def _after(function: ir.Function, position: int, limit: int) -> int:
    """The position after an op and the program's own checks that follow it, because their messages are
    better."""
    position += 1
    while position < limit and isinstance(function.body[position], _SILENT):
        position += 1
    return position


def _check(obligation: Obligation, function: ir.Function) -> ir.AssertExpr:
    prov = function.body[obligation.position].prov
    message = f"{obligation.message} ({obligation.code})"
    return ir.AssertExpr(condition=obligation.condition, message=message, prov=prov)


def _range_check(op: ir.Define, symbol: ir.SymbolDef, sides: Iterable[Side]) -> ir.AssertExpr | None:
    """A check of the ends of a declared range that do not follow from the definition."""
    own, range_ = Sym(symbol.name), bounds(op.expr, {})
    conditions: list[Expr] = []
    if Side.LOWER in sides and symbol.lower is not None and (range_.lo is None or range_.lo < symbol.lower):
        conditions.append(ge(own, symbol.lower))
    if Side.UPPER in sides and symbol.upper is not None and (range_.hi is None or range_.hi > symbol.upper):
        conditions.append(le(own, symbol.upper))
    if not conditions:
        return None
    ends = ", ".join("" if end is None else str(end) for end in (symbol.lower, symbol.upper))
    message = f"{symbol.name}, {print_expr(op.expr)}, is outside of its declared range [{ends}]"
    return ir.AssertExpr(condition=and_(*conditions), message=message, prov=op.prov)


def _inserted(function: ir.Function, checks: _Checks) -> ir.Function:
    if not checks:
        return function
    return function.with_body(_merged(function.body, checks))


def _merged(body: tuple[ir.Op, ...], checks: _Checks) -> Iterator[ir.Op]:
    for position, op in enumerate(body):
        yield from checks.get(position, ())
        yield op
