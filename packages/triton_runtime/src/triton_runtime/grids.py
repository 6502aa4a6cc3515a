"""Launch grids: expressions in, one Python function out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from triton_runtime.errors import KernelError
from wrapper_ir.expr import Expr, Int, SymKind, substitute, to_python
from wrapper_ir.expr.python import symbol_name
from wrapper_ir.kernels import ParamKind, TritonConfig, TritonKernel

__all__ = ["Grid", "make_grid"]

GridFunction = Callable[..., tuple[int, int, int]]
_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class Grid:
    """Three sizes, over the names of a launch's numbers: scalar parameters and numbers of the grid.

    Called with all arguments of a launch and then the numbers of its grid, gives the sizes as ints: `x`, `y`, `z`.
    A size of 0 means that there is nothing to launch.
    """

    sizes: tuple[Expr, Expr, Expr]
    params: tuple[str, ...]
    """Names of what the grid is called with, in order."""
    function: GridFunction = field(compare=False, repr=False)

    @property
    def fixed(self) -> tuple[int, int, int] | None:
        """The sizes, where no launch changes them."""
        x, y, z = self.sizes
        return (
            (x.value, y.value, z.value)
            if isinstance(x, Int) and isinstance(y, Int) and isinstance(z, Int)
            else None
        )

    def __call__(self, *args: object) -> tuple[int, int, int]:
        return self.function(*args)


def make_grid(kernel: TritonKernel, config: TritonConfig) -> Grid:
    """The grid of launches with this config: the config's own expressions, else the kernel's; missing sizes are 1.

    Raises KernelError TR106 where one needs what a launch does not give, or has a fraction.
    """
    fixed = {
        name: Int(int(value))
        for name, value in (*kernel.constants, *config.meta)
        if isinstance(value, int)  # a bool too
    }
    places = {param.name: i for i, param in enumerate(kernel.params) if param.kind is ParamKind.SCALAR}
    places |= {name: i for i, name in enumerate(kernel.grid_params, len(kernel.params))}
    sizes = [_size(kernel, size, fixed, places.keys()) for size in config.grid or kernel.grid]
    if not 1 <= len(sizes) <= _DIMENSIONS:
        raise KernelError("TR106", f"kernel '{kernel.name}': a grid has one to three sizes, not {len(sizes)}")
    x, y, z = (*sizes, Int(1), Int(1))[:_DIMENSIONS]
    params = (*(param.name for param in kernel.params), *kernel.grid_params)
    return Grid((x, y, z), params, _function((x, y, z), places, len(params)))


def _size(kernel: TritonKernel, size: Expr, fixed: Mapping[str, Int], known: Collection[str]) -> Expr:
    replacements: dict[str | Expr, Expr] = dict(fixed.items())
    result = substitute(size, replacements)
    if missing := sorted(result.free_symbols - set(known)):
        raise KernelError(
            "TR106",
            f"kernel '{kernel.name}': its grid needs {', '.join(missing)}, which is no number of its launches",
            "name numbers that only the grid needs in `grid_params`",
        )
    if result.free_values or result.kind is not SymKind.INT:
        raise KernelError(
            "TR106", f"kernel '{kernel.name}': {size} is no whole number, so it is no size of a grid"
        )
    return result


def _function(sizes: tuple[Expr, Expr, Expr], places: Mapping[str, int], count: int) -> GridFunction:
    """One function for the three sizes; parameters go by position, because their names need not be Python's."""

    def name(e: Expr) -> str:
        return f"a{places[symbol_name(e)]}"

    given = ", ".join(f"a{i}" for i in range(count))
    source = f"lambda {given}: ({', '.join(to_python(size, name) for size in sizes)})"
    function: GridFunction = eval(source, {"math": math})  # noqa: S307  # our own printer's text
    return function
