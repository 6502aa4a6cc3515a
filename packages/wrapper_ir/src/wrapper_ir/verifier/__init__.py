"""The verifier: named checks with stable codes over one shared walk."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import Diagnostic, VerificationError
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.verifier.rules import RULES, Rule
from wrapper_ir.verifier.signature import check_signature, require_signature
from wrapper_ir.verifier.signature_rules import SIGNATURE_RULES
from wrapper_ir.verifier.walk import check_all

__all__ = ["RULES", "SIGNATURE_RULES", "Rule", "check", "require_signature", "verify"]


def check(
    program: ir.Program | Artifact, ops: ir.OpSet = ir.OPS, analyses: Analyses | None = None
) -> tuple[Diagnostic, ...]:
    """All findings about `program`, empty for a valid one; never raises, whatever the object holds.

    Of an artifact, the signature is held against the program, too, if that is valid. Ops outside `ops` are refused.
    `analyses` is the program's memo, where the caller has one.
    """
    known = Analyses.of(program.program if isinstance(program, Artifact) else program, analyses)
    with paused_collection():
        found = check_all(known, ops)[0].diagnostics()
        return found or (check_signature(program, known) if isinstance(program, Artifact) else ())


def verify(program: ir.Program | Artifact, ops: ir.OpSet = ir.OPS, analyses: Analyses | None = None) -> None:
    """Raises VerificationError with all findings unless `program`, a program or an artifact, is valid."""
    found = check(program, ops, analyses)
    if found:
        raise VerificationError(found)
