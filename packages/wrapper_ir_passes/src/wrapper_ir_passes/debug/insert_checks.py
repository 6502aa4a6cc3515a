"""Puts run-time checks of open bounds into a program."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.plugins.passes import Pass
from wrapper_ir.verifier.insert_checks import insert_checks


@dataclasses.dataclass(frozen=True)
class InsertChecks(Pass):
    """Puts `assert` where sizes are defined, for each bound that the verifier can neither prove nor disprove.

    Bounds are those of views and extents, negative sizes, windows that must not overlap, alignments that kernels rely on,
    and declared ranges that proofs rest on. Every engine runs this pass; a program without open bounds stays as it is.
    """

    name: ClassVar[str] = "insert-checks"

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with checks."""
        return insert_checks(analyses.program, analyses=analyses)
