"""The last steps of every capture: derived lifetimes, and verification."""

from __future__ import annotations

from inductor_frontend.options import CaptureOptions
from inductor_frontend.streams import early_memory
from inductor_frontend.view_checks import check_views
from wrapper_ir.errors import VerificationError
from wrapper_ir.passes import MoveArguments
from wrapper_ir.program import Program
from wrapper_ir.verifier import check

__all__ = ["finish"]


def finish(program: Program, options: CaptureOptions) -> Program:
    """Ends every storage at its last use, in callees where it can be moved there; verifies the result, as the
    options ask, with run-time checks of what only run time can tell. Raises VerificationError."""
    program = MoveArguments().run(early_memory(program))
    if options.verify:
        found = check(program)
        checked = check_views(program, found) if found and options.scalar_asserts else program
        if checked is not program:
            program, found = checked, check(checked)
        if found:
            raise VerificationError(found)
    return program
