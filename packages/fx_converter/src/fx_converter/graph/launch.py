"""Kernels."""

from __future__ import annotations

from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.ops import Launch

__all__ = ["launch"]


def launch(op: Launch, scope: FunctionScope) -> None:
    """A call of a kernel, in the chosen form; the numbers of its grid come behind its arguments."""
    kernel = scope.program.analyses.kernels.get(op.kernel)
    if kernel is None:
        raise scope.invalid(f"the program has no kernel @{op.kernel}")
    if len(op.args) != len(kernel.params):
        raise scope.invalid(f"@{op.kernel} takes {len(kernel.params)} arguments, got {len(op.args)}")
    args = [scope.argument(arg) for arg in op.args]
    grid = [scope.argument(arg) for arg in op.grid]
    with on_stream(op, scope):
        made = scope.program.kernels.call(kernel, args, grid, scope)
    made.meta["kernel"] = op.kernel
    made.meta["kernel_hash"] = scope.program.kernels.hash_of(kernel)
