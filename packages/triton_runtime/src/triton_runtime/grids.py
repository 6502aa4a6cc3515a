"""Launch grids: compiles expressions to one Python function."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from triton_runtime.errors import KernelError
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, SymKind, to_python
from wrapper_ir.expr.arithmetic import power

GridFunction = Callable[..., tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Grid:
    """Three sizes over the names of a launch's numbers: scalar parameters and numbers of the grid.

    The call takes all arguments of a launch and the numbers of its grid, and returns the sizes `x`, `y`, `z`
    as ints. A size of 0 means an empty launch.
    """

    sizes: tuple[Expr, Expr, Expr]
    params: tuple[str, ...]
    """Names of the arguments of the call, in order."""
    function: GridFunction = field(compare=False, repr=False)

    @property
    def fixed(self) -> tuple[int, int, int] | None:
        """The sizes if they are constant, otherwise None."""
        x, y, z = self.sizes
        return (
            (x.value, y.value, z.value)
            if isinstance(x, Int) and isinstance(y, Int) and isinstance(z, Int)
            else None
        )

    def __call__(self, *args: object) -> tuple[int, int, int]:
        return self.function(*args)


def make_grid(kernel: ir.TritonKernel, config: ir.TritonConfig) -> Grid:
    """The grid of launches with this config: the config's expressions, or the kernel's; missing sizes are 1.

    Raises KernelError TR106 if a size needs a value that a launch does not have, or is not an integer.
    """
    places = {param.name: i for i, param in enumerate(kernel.params) if param.kind is ir.ParamKind.SCALAR}
    places |= {name: i for i, name in enumerate(kernel.grid_params, len(kernel.params))}
    count = len(config.grid or kernel.grid)
    if not 1 <= count <= ir.MAX_GRID:
        raise KernelError("TR106", f"kernel '{kernel.name}': a grid has one to three sizes, not {count}")
    x, y, z = (_checked(kernel, size, places.keys()) for size in ir.bound_grid(kernel, config))
    params = (*(param.name for param in kernel.params), *kernel.grid_params)
    return Grid((x, y, z), params, _function((x, y, z), places, len(params)))


def _checked(kernel: ir.TritonKernel, size: Expr, names: Collection[str]) -> Expr:
    if missing := sorted(size.free_symbols - set(names)):
        raise KernelError(
            "TR106",
            f"kernel '{kernel.name}': its grid needs {', '.join(missing)}, which is not a number of its "
            "launches",
            "name numbers that only the grid needs in `grid_params`",
        )
    if size.free_atoms or size.kind is not SymKind.INT:
        raise KernelError(
            "TR106", f"kernel '{kernel.name}': {size} is not a whole number, so it is not a size of a grid"
        )
    return size


def _function(sizes: tuple[Expr, Expr, Expr], places: Mapping[str, int], count: int) -> GridFunction:
    """Compiles the three sizes to one function. Parameters are positional, because their names need not be
    valid Python.
    """

    def name(e: Expr) -> str:
        # `_checked` refuses atoms
        assert isinstance(e, Sym)
        return f"a{places[e.name]}"

    parameters = ", ".join(f"a{i}" for i in range(count))
    source = f"lambda {parameters}: ({', '.join(to_python(size, name) for size in sizes)})"
    # the text comes from our own printer
    function: GridFunction = eval(source, {"math": math, "power": power})  # noqa: S307
    return function
