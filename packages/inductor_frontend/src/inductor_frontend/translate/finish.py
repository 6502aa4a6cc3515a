"""The last steps of every capture: derived lifetimes, and verification."""

from __future__ import annotations

from inductor_frontend.options import CaptureOptions
from inductor_frontend.translate.allocation_ids import with_allocation_ids
from inductor_frontend.translate.early_memory import early_memory
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier import verify
from wrapper_ir_passes.cleanup.move_arguments import MoveArguments
from wrapper_ir_passes.collectives.sink_waits import SinkWaits


def finish(program: ir.Program, options: CaptureOptions) -> Analyses:
    """Ends every storage at its last use, in callees where it can be moved there; verifies the result, as the
    options ask. Returns the finished program's memo. Raises VerificationError."""
    given = Analyses(with_allocation_ids(program))
    early = given.after(early_memory(given))
    if options.sink_waits and any(isinstance(op, ir.Wait) for op in early.program.ops):
        early = early.after(SinkWaits().run(early.program, early))
    finished = early.after(MoveArguments().run(early.program, early))
    if options.verify:
        verify(finished.program, analyses=finished)
    return finished
