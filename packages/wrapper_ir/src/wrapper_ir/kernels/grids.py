"""Launch grids of a kernel with a config."""

from __future__ import annotations

from wrapper_ir.expr import Expr, Int, substitute
from wrapper_ir.kernels.triton import TritonConfig, TritonKernel

__all__ = ["MAX_GRID", "bound_grid"]

MAX_GRID = 3
"""Sizes that a grid has at most."""


def bound_grid(kernel: TritonKernel, config: TritonConfig) -> tuple[Expr, ...]:
    """The three sizes of the grid, x, y and z, of launches with `config`: the config's own expressions, else the
    kernel's, with constants and meta-parameters put in; missing sizes are 1.

    What is left to evaluate are names of numbers among the arguments of a launch (`params`, then `grid_params`). A size
    of 0 means that there is nothing to launch.
    """
    fixed: dict[str | Expr, Expr] = {
        name: Int(int(value))
        for name, value in (*kernel.constants, *config.meta)
        if isinstance(value, int)  # a bool too
    }
    sizes = tuple(substitute(size, fixed) for size in config.grid or kernel.grid)
    return sizes + (Int(1),) * (MAX_GRID - len(sizes))
