"""Triton kernels in the form that torch's passes support: `triton_kernel_wrapper_mutation`.

That operator refers to a kernel, and to constants that a graph cannot contain, by integers into tables of the
process. A kernel is added once, by content; the integers are never stored.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Protocol

from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

from fx_converter._compat import has_effect
from fx_converter.errors import ConvertError
from fx_converter.kernels.identity import kernel_hash
from fx_converter.nodes import Argument
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, evaluate, substitute

has_effect(triton_kernel_wrapper_mutation)  # torch's passes ignore the tensors that it writes among `kwargs`
TRITON_IDS = ("kernel_idx", "constant_args_idx")
"""Arguments of the operator that are valid in one process only."""
_CONFIG_OPTIONS = ("num_ctas", "maxnreg")  # options that are parameters of Triton's configs
_FLOAT8 = {
    ir.DType.F8E4M3FN: "float8e4nv",
    ir.DType.F8E5M2: "float8e5",
    ir.DType.F8E4M3FNUZ: "float8e4b8",
    ir.DType.F8E5M2FNUZ: "float8e5b16",
    ir.DType.BOOL: "int1",
}  # Triton's names that differ from torch's


class _Scope(Protocol):
    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Argument]) -> list[Argument]:
        """Returns sizes over existing nodes and numbers."""


def triton_form(kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> TritonForm | None:
    """Returns the form of a kernel, or of the first variant if the choice is measured. Returns None for
    kernels of other kinds, and for a choice by sizes in each call."""
    measured = isinstance(kernel, ir.MultiKernel) and kernel.choice is ir.Choice.MEASURE
    first = kernel.variants[0] if isinstance(kernel, ir.MultiKernel) and measured else None
    callee = kernel if first is None else kernels[first.kernel]
    if not isinstance(callee, ir.TritonKernel):
        return None
    args = tuple(range(len(callee.params))) if first is None else first.args
    grid = tuple(range(len(callee.grid_params))) if first is None else first.grid
    return TritonForm(callee, kernel_hash(callee, kernels), args, grid)


@dataclass(frozen=True)
class TritonForm:
    """One kernel with its first config, as arguments of the operator. `args` and `grid_args` are the
    positions of its arguments among those of a launch, and of its numbers among those of the launch's grid.
    """

    kernel: ir.TritonKernel
    hash: str
    args: tuple[int, ...]
    grid_args: tuple[int, ...]

    @property
    def config(self) -> ir.TritonConfig:
        """The config of launches."""
        return self.kernel.configs[0]

    def ids(self) -> dict[str, int]:
        """Returns the integers of this process."""
        kernel, constants = _entered(_Key(self))
        return {"kernel_idx": kernel, "constant_args_idx": constants}

    def grid(self, numbers: dict[str, Argument], scope: _Scope) -> tuple[Argument, ...]:
        """Returns the grid's sizes as nodes; `numbers` are the launch's, by name."""
        fixed: dict[str | Expr, Expr] = {
            name: Int(int(value))
            for name, value in (*self.kernel.constants, *self.config.meta)
            if isinstance(value, int)
        }
        sizes = [substitute(size, fixed) for size in self.config.grid or self.kernel.grid]
        return tuple(scope.sizes(sizes, numbers))

    def blocks(self) -> dict[str, Argument]:
        """Returns the block shapes of descriptors in torch's form, by parameter."""
        meta = {name: value for name, value in self.config.meta if isinstance(value, int)}
        return {
            p.name: ("stable", ([int(evaluate(e, meta)) for e in p.block],))
            for p in self.kernel.params
            if p.kind is ir.ParamKind.DESCRIPTOR
        }

    def given(self, args: Sequence[Argument]) -> dict[str, Argument]:
        """Returns the arguments of a launch, by the names of the kernel's parameters."""
        names = (p.name for p in self.kernel.params)
        return dict(zip(names, (args[i] for i in self.args), strict=True))

    def numbers(self, grid: Sequence[Argument]) -> dict[str, Argument]:
        """Returns the numbers of a launch's grid, by the kernel's names."""
        return dict(zip(self.kernel.grid_params, (grid[i] for i in self.grid_args), strict=True))

    def tuned(self) -> Any:  # Any: Triton publishes no types
        """Returns Triton's object: the function with one config."""
        import triton  # only conversions of such kernels need Triton

        config = self.config
        options = dict((*self.kernel.options, *config.options))
        parameters = {name: options.pop(name) for name in _CONFIG_OPTIONS if name in options}
        meta = {name: _native(value) for name, value in config.meta}
        single = triton.Config(
            {**meta, **options}, num_warps=config.num_warps, num_stages=config.num_stages, **parameters
        )
        return triton.autotune(configs=[single], key=[])(self.function())

    def function(self) -> Any:  # Any: a function of Triton
        """Returns the function without a config. Raises ConvertError FX104 if the source does not load."""
        return _function(_Key(self))

    def constants(self) -> dict[str, object]:
        """Returns the arguments that are equal in every launch."""
        return {name: _native(value) for name, value in self.kernel.constants}


@dataclass(frozen=True, eq=False)
class _Key:
    """A form that compares by content."""

    form: TritonForm

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.form.hash == other.form.hash

    def __hash__(self) -> int:
        return hash(self.form.hash)


@cache  # lives as long as torch's tables
def _entered(key: _Key) -> tuple[int, int]:
    """Adds kernel and constants to torch's tables, and returns their numbers."""
    kernel = kernel_side_table.add_kernel(key.form.tuned())
    return kernel, kernel_side_table.add_constant_args(key.form.constants())


@cache
def _function(key: _Key) -> Any:  # Any: a function of Triton
    """Returns the function of the kernel's source.

    Triton reads the source from `linecache`, without a file.
    """
    kernel, hash = key.form.kernel, key.form.hash
    file = f"<wrapper_ir triton kernel {hash}>"
    linecache.cache[file] = (len(kernel.source), None, kernel.source.splitlines(True), file)
    module = ModuleType(f"wrapper_ir_triton_{hash[:16]}")
    module.__file__ = file
    try:
        exec(compile(kernel.source, file, "exec"), module.__dict__)
        return vars(module)[kernel.entry]
    except Exception as error:
        raise ConvertError(
            "FX104", f"kernel '{kernel.name}': its source does not load: {type(error).__name__}: {error}"
        ) from error


def _native(value: ir.ConstantValue) -> object:
    if isinstance(value, tuple):
        return tuple(map(_native, value))
    if not isinstance(value, ir.DType):
        return value
    import triton.language as tl  # only calls need Triton

    dtype: object = getattr(tl, _FLOAT8.get(value, value.torch_name))  # Triton's names
    return dtype
