"""Gives each kernel and operator a range that profilers show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.recorded import recorded_functions
from wrapper_ir.plugins.passes import Pass

_MARK = "wir "


@dataclass(frozen=True)
class ProfileRanges(Pass):
    """Puts a range around each launch and each operator, with its name, and the source ops, places and modules as details.

    Every emitter writes ranges: torch.profiler has them in its traces, which Perfetto shows, and
    `torch.autograd.profiler.emit_nvtx` gives them to Nsight. Functions that a device records stay as they are.
    """

    name: ClassVar[str] = "profile-ranges"

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with ranges in place of those that an earlier run put in."""
        given, recorded = analyses.program, analyses.get(recorded_functions)
        made = given.with_functions(
            f if f.name in recorded else f.with_body(_with_ranges(f)) for f in given.functions
        )
        return given if made == given else made

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Without the ranges."""
        return _without(before), _without(after)


def _with_ranges(function: ir.Function) -> Iterator[ir.Op]:
    for op in _plain(function):
        if isinstance(op, ir.Launch | ir.OperatorCall):
            name = op.kernel if isinstance(op, ir.Launch) else op.target
            yield ir.EnterProfile(name=name, details=_MARK + _details(op.prov), prov=op.prov)
            yield op
            yield ir.ExitScope(prov=op.prov)
        else:
            yield op


def _details(prov: ir.Provenance) -> str:
    parts = (("ops", prov.ops), ("at", prov.locations), ("in", prov.modules))
    return "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)


def _without(program: ir.Program) -> ir.Program:
    return program.with_functions(f.with_body(_plain(f)) for f in program.functions)


def _plain(function: ir.Function) -> Iterator[ir.Op]:
    """The body without the ranges of the pass, which hold one op each."""
    left = 0
    for op in function.body:
        if isinstance(op, ir.EnterProfile) and op.details.startswith(_MARK):
            left = 2
            continue
        left -= 1
        if left == 0 and isinstance(op, ir.ExitScope):
            continue
        yield op
