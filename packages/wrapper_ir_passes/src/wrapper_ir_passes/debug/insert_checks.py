"""Inserts run-time checks of open bounds."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir.verifier.insert_checks import insert_checks


@dataclasses.dataclass(frozen=True)
class InsertChecks(Pass):
    """Inserts run-time checks of bounds that the verifier can neither prove nor disprove.

    Each is an `assert` at the definition of a size. Bounds are those of views and extents, negative sizes,
    windows that must not overlap, and alignments that kernels rely on. Declared ranges that proofs depend on
    are bounds, too. Every engine runs this pass; a program without open bounds is unchanged.
    """

    name: ClassVar[str] = "insert-checks"

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with checks."""
        return insert_checks(analyses.program, analyses=analyses)
