"""The verifier: named checks with stable codes over one shared walk."""

from __future__ import annotations

from wrapper_ir.artifact import Artifact
from wrapper_ir.collection import paused_collection
from wrapper_ir.errors import Diagnostic, VerificationError
from wrapper_ir.ops import OPS, OpSet
from wrapper_ir.program import Program
from wrapper_ir.verifier.rules import RULES, Rule
from wrapper_ir.verifier.signature import check_signature, require_signature
from wrapper_ir.verifier.signature_rules import SIGNATURE_RULES
from wrapper_ir.verifier.walk import check_all

__all__ = ["RULES", "SIGNATURE_RULES", "Rule", "check", "require_signature", "verify"]


def check(program: Program | Artifact, ops: OpSet = OPS) -> tuple[Diagnostic, ...]:
    """All findings about `program`, empty for a valid one; never raises, whatever the object holds.

    Of an artifact, the signature is held against the program, too, if that is valid. Ops outside `ops` are refused.
    """
    with paused_collection():
        if not isinstance(program, Artifact):
            return check_all(program, ops)[0].diagnostics()
        return check_all(program.program, ops)[0].diagnostics() or check_signature(program)


def verify(program: Program | Artifact, ops: OpSet = OPS) -> None:
    """Raises VerificationError with all findings unless `program`, a program or an artifact, is valid."""
    found = check(program, ops)
    if found:
        raise VerificationError(found)
