"""Removes checks, comments and debug ops."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass


def _without(program: ir.Program, *classes: type[ir.OpBase]) -> ir.Program:
    return program.with_functions(f.without(*classes) for f in program.functions)


@dataclasses.dataclass(frozen=True)
class StripAsserts(Pass):
    """Removes run-time checks: of layouts, of finite values and, if asked, conditions on sizes.

    Conditions are kept by default, because the verifier may need them to prove that views stay inside their
    storage.
    """

    name: ClassVar[str] = "strip-asserts"
    layouts: bool = True
    finite: bool = True
    conditions: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program without the chosen checks; lifetimes stay as they are."""
        classes: list[type[ir.OpBase]] = []
        classes += [ir.AssertLayout] if self.layouts else []
        classes += [ir.AssertFinite] if self.finite else []
        classes += [ir.AssertExpr] if self.conditions else []
        return _without(analyses.program, *classes)


@dataclasses.dataclass(frozen=True)
class StripDebug(Pass):
    """Removes comments and debug ops."""

    name: ClassVar[str] = "strip-debug"
    comments: bool = True

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program without them; lifetimes stay as they are."""
        return _without(analyses.program, ir.DebugValue, *((ir.Comment,) if self.comments else ()))
