"""Triton kernels: source, configs and grid as data, so that compiling and launching needs nothing of what made them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr, Int, SymKind, substitute
from wrapper_ir.ir.kernels.constants import ConstantValue, ExactConstants
from wrapper_ir.ir.kernels.params import KernelParam, ParamKind, Requirement

MAX_GRID = 3
"""Sizes that a grid has at most."""


class Derivation(enum.Enum):
    """A rule by which a tuner may make more candidates of a kernel's configs, beyond those that it lists."""

    SCALED_REDUCTION = "scaled_reduction"
    """After compilation: a config whose registers leave multiprocessors idle is tried with its reduction block halved."""
    COORDINATE_DESCENT = "coordinate_descent"
    """After tuning: neighbours of the best config, one meta-parameter at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TritonConfig(ExactConstants):
    """One way to compile a kernel. Text: `{XBLOCK = 128} warps(4) stages(1)`.

    `meta` gives the meta-parameters by name; `options` are further options of Triton's compiler (`num_ctas`,
    `maxnreg`, ...). `grid` replaces the kernel's own where not empty.
    """

    syntax: ClassVar[str] = (
        "{{{meta}}} warps({num_warps}) stages({num_stages})< options({options})>< grid({grid})>"
    )

    meta: tuple[tuple[str, ConstantValue], ...]
    num_warps: int
    num_stages: int
    options: tuple[tuple[str, ConstantValue], ...] = ()
    grid: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TritonKernel(ExactConstants):
    """A `@triton.jit` function. A launch gives it `params` in order, then one number for each of `grid_params`.

    Shapes: `grid` has one to three sizes, over the numbers among `params`, the meta-parameters of the chosen config,
    and `grid_params`, which are numbers that only the grid needs.

    Text: `kernel triton @relu entry "relu" (read f32* x, write f32* y, i32 n) order(x, y, n, XBLOCK) configs(
    {XBLOCK = 128} warps(4) stages(1), ) grid(ceildiv(n, XBLOCK)) {{{ import triton }}}`.
    """

    kind: ClassVar[str] = "triton"
    syntax: ClassVar[str] = (
        "kernel triton {name:reference} entry {entry} ({params})<| order({order:name})><| constants({constants})>"
        "<| configs({configs:rows})><| grid({grid})>< over({grid_params:name})><| derive({derive})>"
        "<| options({options})><| restore({restore:name})><| reset({reset:name})><| hints({size_hints})>"
        "<| heuristic {heuristic}><| {cooperative}><| multiprocessors({multiprocessors})>"
        "<| requires({requires:rows})>| {source:block}"
    )

    name: str
    params: tuple[KernelParam, ...]
    source: str
    """A Python module: imports, helpers, and the function `entry`, decorated by `@triton.jit`."""
    entry: str
    order: tuple[str, ...]
    """The function's own parameters: names of `params`, of `constants` and of meta-parameters."""
    configs: tuple[TritonConfig, ...]
    """Candidates, at least one; the first is taken where nothing was tuned."""
    grid: tuple[Expr, ...]
    grid_params: tuple[str, ...] = ()
    constants: tuple[tuple[str, ConstantValue], ...] = ()
    """Values of the function's parameters that are the same in all configs: constants, arguments that were folded
    because they are None or 1."""
    derive: tuple[Derivation, ...] = ()
    options: tuple[tuple[str, ConstantValue], ...] = ()
    """Options of Triton's compiler that hold for all configs."""
    restore: tuple[str, ...] = ()
    """Parameters whose tensors a tuner restores after every run (Triton's `restore_value`)."""
    reset: tuple[str, ...] = ()
    """Parameters whose tensors a tuner sets to zero before every run (Triton's `reset_to_zero`)."""
    size_hints: tuple[tuple[str, int], ...] = ()
    """Sizes that the configs were made for, by the name of the dimension (`x`, `y`, `r0_`)."""
    heuristic: str = ""
    """The family that the configs are of, for tuners: pointwise, reduction, persistent_reduction, template, user, ..."""
    cooperative: bool = False
    """All programs of the grid have to run at the same time."""
    multiprocessors: int | None = None
    """The source was made for a device with exactly this many multiprocessors; None: for any."""
    requires: tuple[Requirement, ...] = ()
    """Modules that the source imports, but for Triton's own."""


class KernelNames(dict[str, SymKind]):
    """The kinds of names in a kernel's expressions: parameters that are numbers with fractions, and all others, which
    are whole numbers. Which names there are is for the verifier to say (`kernel_symbols`)."""

    def __init__(self, params: Iterable[KernelParam] = ()) -> None:
        super().__init__((p.name, SymKind.FLOAT) for p in params if _is_number(p) and p.dtype.is_floating)

    def get(self, name: str, default: object = None) -> SymKind:
        """The kind of a name."""
        return super().get(name, SymKind.INT)


def _is_number(param: KernelParam) -> bool:
    return param.kind is ParamKind.SCALAR


def kernel_symbols(kernel: TritonKernel) -> frozenset[str]:
    """What the grids and blocks of a kernel may mention: numbers among its parameters, numbers of its grid, and
    meta-parameters and constants that are whole numbers."""
    numbers = {p.name for p in kernel.params if _is_number(p)} | {*kernel.grid_params}
    pairs = [*kernel.constants, *(pair for config in kernel.configs for pair in config.meta)]
    return frozenset(numbers | {name for name, value in pairs if isinstance(value, int)})


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
