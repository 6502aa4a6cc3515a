"""Triton kernels as data: source, configs and grid, independent of the compiler that generated them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr, Int, SymKind, substitute
from wrapper_ir.ir.kernels.constants import ConstantValue, ExactConstants
from wrapper_ir.ir.kernels.params import KernelParam, ParamKind, Requirement

MAX_GRID = 3
"""The maximum number of grid dimensions."""


class Derivation(enum.Enum):
    """A rule by which a tuner derives more candidates from a kernel's configs."""

    SCALED_REDUCTION = "scaled_reduction"
    """After compilation: halve the reduction block of a config whose registers limit occupancy."""
    COORDINATE_DESCENT = "coordinate_descent"
    """After tuning: try neighbors of the best config, one meta-parameter at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TritonConfig(ExactConstants):
    """Autotune config of a kernel. Text: `{XBLOCK = 128} warps(4) stages(1)`.

    `meta` has the meta-parameters by name; `options` are further options of Triton's compiler (`num_ctas`,
    `maxnreg`, ...). `grid` replaces the kernel's own if it is not empty.
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
    """A `@triton.jit` function. A launch passes `params` in order, then one number for each of `grid_params`.

    Shapes: `grid` has one to three sizes, over the scalar `params`, the meta-parameters of the selected
    config, and `grid_params`, which only the grid uses.

    Text: `kernel triton @relu entry "relu" (read f32* x, write f32* y, i32 n) order(x, y, n, XBLOCK) configs(
    {XBLOCK = 128} warps(4) stages(1), ) grid(ceildiv(n, XBLOCK)) {{{ import triton }}}`.
    """

    kind: ClassVar[str] = "triton"
    on_host: ClassVar[bool] = False
    syntax: ClassVar[str] = (
        "kernel triton {name:reference} entry {entry} ({params})<| order({order:name})>"
        "<| constants({constants})>"
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
    """The function's parameters in order: names of `params`, `constants` and meta-parameters."""
    configs: tuple[TritonConfig, ...]
    """Candidates, at least one; an untuned kernel uses the first."""
    grid: tuple[Expr, ...]
    grid_params: tuple[str, ...] = ()
    constants: tuple[tuple[str, ConstantValue], ...] = ()
    """Values of parameters common to all configs: constants, and arguments specialized to None or 1."""
    derive: tuple[Derivation, ...] = ()
    options: tuple[tuple[str, ConstantValue], ...] = ()
    """Options of Triton's compiler for all configs."""
    restore: tuple[str, ...] = ()
    """Parameters whose tensors a tuner restores after every run (Triton's `restore_value`)."""
    reset: tuple[str, ...] = ()
    """Parameters whose tensors a tuner zeroes before every run (Triton's `reset_to_zero`)."""
    size_hints: tuple[tuple[str, int], ...] = ()
    """Sizes that the configs were generated for, by dimension (`x`, `y`, `r0_`)."""
    heuristic: str = ""
    """Family of the configs, for tuners: pointwise, reduction, persistent_reduction, template, user, ..."""
    cooperative: bool = False
    """All programs of the grid must run at the same time."""
    multiprocessors: int | None = None
    """The number of multiprocessors that the source was generated for; None: any number."""
    requires: tuple[Requirement, ...] = ()
    """Modules that the source imports, except Triton's own."""


class KernelNames(dict[str, SymKind]):
    """Kinds of names in a kernel's expressions: float for floating-point parameters, otherwise int.

    The verifier checks which names exist (`kernel_symbols`).
    """

    def __init__(self, params: Iterable[KernelParam] = ()) -> None:
        super().__init__((p.name, SymKind.FLOAT) for p in params if _is_number(p) and p.dtype.is_floating)

    def get(self, name: str, default: object = None) -> SymKind:
        """Returns the kind of a name."""
        return super().get(name, SymKind.INT)


def _is_number(param: KernelParam) -> bool:
    return param.kind is ParamKind.SCALAR


def kernel_symbols(kernel: TritonKernel) -> frozenset[str]:
    """Returns the names that grids and blocks may use: scalar parameters, grid parameters, and int constants
    and meta-parameters."""
    numbers = {p.name for p in kernel.params if _is_number(p)} | {*kernel.grid_params}
    pairs = [*kernel.constants, *(pair for config in kernel.configs for pair in config.meta)]
    return frozenset(numbers | {name for name, value in pairs if isinstance(value, int)})


def bound_grid(kernel: TritonKernel, config: TritonConfig) -> tuple[Expr, ...]:
    """Returns the grid (x, y, z) of launches with `config`: the config's expressions, otherwise the kernel's.

    Constants and meta-parameters are substituted; missing sizes are 1. The remaining names are scalar
    `params` and `grid_params`. A size of 0 means that nothing is launched.
    """
    fixed: dict[str | Expr, Expr] = {
        name: Int(int(value))
        for name, value in (*kernel.constants, *config.meta)
        if isinstance(value, int)  # includes bools
    }
    sizes = tuple(substitute(size, fixed) for size in config.grid or kernel.grid)
    return sizes + (Int(1),) * (MAX_GRID - len(sizes))
