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
    """Returns all findings about `program`, empty for a valid one. Never raises, whatever the object
    contains.

    The signature of an artifact is also checked, if its program is valid. Ops outside `ops` are refused.
    `analyses` is the program's memo, if the caller has one.
    """
    artifact = program if isinstance(program, Artifact) else None
    memo = Analyses.of(program.program if isinstance(program, Artifact) else program, analyses)
    with paused_collection():
        diagnostics = check_all(memo, ops)[0].diagnostics()
        return diagnostics if diagnostics or artifact is None else check_signature(artifact, memo)


def verify(program: ir.Program | Artifact, ops: ir.OpSet = ir.OPS, analyses: Analyses | None = None) -> None:
    """Raises VerificationError with all findings unless `program`, a program or an artifact, is valid."""
    diagnostics = check(program, ops, analyses)
    if diagnostics:
        raise VerificationError(diagnostics)
