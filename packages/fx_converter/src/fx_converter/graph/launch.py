"""Kernels."""

from __future__ import annotations

from fx_converter.graph.placement import on_stream
from fx_converter.graph.scope import FunctionScope
from wrapper_ir.lowering.steps import Launch

__all__ = ["launch"]


def launch(step: Launch, scope: FunctionScope) -> None:
    """A call of a kernel, in the chosen form; the numbers of its grid come after its arguments."""
    kernel = step.kernel
    args = [scope.argument(arg) for _, arg in step.args]
    grid = [scope.argument(arg) for arg in step.grid]
    with on_stream(step, scope):
        made = scope.program.kernels.call(kernel, args, grid, scope)
    made.meta["kernel"] = kernel.name
    made.meta["kernel_hash"] = scope.program.kernels.hash_of(kernel)
