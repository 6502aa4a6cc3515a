"""Last steps of every capture: derived lifetimes, and verification."""

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
    """Frees every storage after its last use, in callees if the free can be moved there, and verifies the
    result.

    Returns the analyses of the finished program. Raises VerificationError, if the options enable
    verification.
    """
    translated = Analyses(with_allocation_ids(program))
    early = translated.after(early_memory(translated))
    if options.sink_waits and any(early.program.ops_of(ir.Wait)):
        early = early.after(SinkWaits().run(early.program, early))
    finished = early.after(MoveArguments().run(early.program, early))
    if options.verify:
        verify(finished.program, analyses=finished)
    return finished
