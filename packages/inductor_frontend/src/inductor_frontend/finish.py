"""The last steps of every capture: derived lifetimes, and verification."""

from __future__ import annotations

from inductor_frontend.options import CaptureOptions
from wrapper_ir.program import Program

__all__ = ["finish"]


def finish(program: Program, options: CaptureOptions) -> Program:
    """Ends every storage at its last use and verifies the result, as the options ask."""
    if options.derive_frees:
        from wrapper_ir.passes import DeriveFrees

        program = DeriveFrees().run(program)
    if options.verify:
        from wrapper_ir.verifier import verify

        verify(program)
    return program
