"""The last steps of every capture: derived lifetimes, and verification."""

from __future__ import annotations

from inductor_frontend.options import CaptureOptions
from inductor_frontend.streams import early_memory
from wrapper_ir.passes import MoveArguments
from wrapper_ir.program import Program
from wrapper_ir.verifier import verify

__all__ = ["finish"]


def finish(program: Program, options: CaptureOptions) -> Program:
    """Ends every storage at its last use, in callees where it can be moved there; verifies the result, as the
    options ask. Raises VerificationError."""
    program = MoveArguments().run(early_memory(program))
    if options.verify:
        verify(program)
    return program
