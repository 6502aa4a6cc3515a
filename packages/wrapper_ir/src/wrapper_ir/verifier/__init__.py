"""The verifier: named checks with stable codes over one shared walk."""

from __future__ import annotations

from wrapper_ir.collection import paused_collection
from wrapper_ir.errors import Diagnostic, VerificationError
from wrapper_ir.program import Program
from wrapper_ir.verifier.rules import RULES, Rule
from wrapper_ir.verifier.walk import check_all

__all__ = ["RULES", "Rule", "check", "verify"]


def check(program: Program) -> tuple[Diagnostic, ...]:
    """All findings about `program`, empty for a valid one; never raises, whatever the object holds."""
    with paused_collection():
        return check_all(program).diagnostics()


def verify(program: Program) -> None:
    """Raises VerificationError with all findings unless `program` is valid."""
    found = check(program)
    if found:
        raise VerificationError(found)
