"""Gives each kernel and operator a range in profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import replayed_functions
from wrapper_ir.plugins.passes import Pass

_MARK = "wir "


@dataclass(frozen=True)
class ProfileRanges(Pass):
    """Puts a range with its name around each launch and each operator.

    Its details are source ops, places and modules. Every emitter writes ranges: torch.profiler has them in
    its traces, which Perfetto shows, and `torch.autograd.profiler.emit_nvtx` passes them to Nsight. Functions
    that a device captures are unchanged.
    """

    name: ClassVar[str] = "profile-ranges"

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with new ranges in place of those of an earlier run."""
        original, graphed = analyses.program, analyses.get(replayed_functions)
        with_ranges = original.with_functions(
            f if f.name in graphed else f.with_body(_with_ranges(f)) for f in original.functions
        )
        return original if with_ranges == original else with_ranges

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs without the ranges."""
        return _without(before), _without(after)


def _with_ranges(function: ir.Function) -> Iterator[ir.Op]:
    for op in _plain(function):
        if isinstance(op, ir.OutsideCall):
            details = _MARK + _details(op.prov)
            yield ir.EnterProfile(name=ir.callee_name(op), details=details, prov=op.prov)
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
    """The body without the ranges of the pass, which contain one op each."""
    depth = 0
    for op in function.body:
        depth -= 1
        match op:
            case ir.EnterProfile(details=details) if details.startswith(_MARK):
                depth = 2
            case ir.ExitScope() if depth == 0:
                pass
            case _:
                yield op
