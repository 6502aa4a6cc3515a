"""The verifier: named checks with stable codes over one shared walk."""

from __future__ import annotations

from wrapper_ir.artifact import Artifact
from wrapper_ir.collection import paused_collection
from wrapper_ir.errors import Diagnostic, VerificationError
from wrapper_ir.program import Program
from wrapper_ir.verifier.rules import RULES, Rule
from wrapper_ir.verifier.signature import check_signature
from wrapper_ir.verifier.signature_rules import SIGNATURE_RULES
from wrapper_ir.verifier.walk import check_all

__all__ = ["RULES", "SIGNATURE_RULES", "Rule", "check", "verify"]


def check(program: Program | Artifact) -> tuple[Diagnostic, ...]:
    """All findings about `program`, empty for a valid one; never raises, whatever the object holds.

    Of an artifact, the signature is held against the program, too, if that is valid.
    """
    with paused_collection():
        if not isinstance(program, Artifact):
            return check_all(program).diagnostics()
        return check_all(program.program).diagnostics() or check_signature(program)


def verify(program: Program | Artifact) -> None:
    """Raises VerificationError with all findings unless `program`, a program or an artifact, is valid."""
    found = check(program)
    if found:
        raise VerificationError(found)
