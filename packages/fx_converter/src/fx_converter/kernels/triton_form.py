"""Triton kernels in the form that torch's own passes know: `triton_kernel_wrapper_mutation`.

That operator refers to a kernel, and to what a graph cannot hold, by integers into tables of the process. A kernel is entered
there once, under its content; the integers are never stored.
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
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, evaluate, substitute

has_effect(
    triton_kernel_wrapper_mutation
)  # it writes tensors among its `kwargs`, which torch's passes do not see
# Any in this file: Triton publishes no types; nodes and numbers as arguments
TRITON_IDS = ("kernel_idx", "constant_args_idx")
"""Arguments of the operator that mean something in one process only."""
_OF_CONFIG = ("num_ctas", "maxnreg")  # options that Triton's configs name themselves
_FLOAT8 = {
    ir.DType.F8E4M3FN: "float8e4nv",
    ir.DType.F8E5M2: "float8e5",
    ir.DType.F8E4M3FNUZ: "float8e4b8",
    ir.DType.F8E5M2FNUZ: "float8e5b16",
    ir.DType.BOOL: "int1",
}  # where Triton's names are not torch's


class _Scope(Protocol):
    def sizes(self, exprs: Sequence[Expr], numbers: Mapping[str, Any]) -> list[Any]:
        """Sizes over numbers that are there already."""


def triton_form(kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> TritonForm | None:
    """What is called for a kernel: itself, or the first of those that are chosen from by measurement. None for what is not
    Triton's, and for what is chosen by sizes in each call."""
    measured = isinstance(kernel, ir.MultiKernel) and kernel.choice is ir.Choice.MEASURE
    first = kernel.variants[0] if isinstance(kernel, ir.MultiKernel) and measured else None
    called = kernel if first is None else kernels[first.kernel]
    if not isinstance(called, ir.TritonKernel):
        return None
    args = tuple(range(len(called.params))) if first is None else first.args
    grid = tuple(range(len(called.grid_params))) if first is None else first.grid
    return TritonForm(called, kernel_hash(called, kernels), args, grid)


@dataclass(frozen=True)
class TritonForm:
    """One kernel with its first config, as arguments of the operator. `args` and `grid_args` are the positions of what it
    takes among the arguments of a launch, and among the numbers of its grid."""

    kernel: ir.TritonKernel
    hash: str
    args: tuple[int, ...]
    grid_args: tuple[int, ...]

    @property
    def config(self) -> ir.TritonConfig:
        """The config that launches take."""
        return self.kernel.configs[0]

    def ids(self) -> dict[str, int]:
        """The integers of this process."""
        kernel, constants = _entered(_Key(self))
        return {"kernel_idx": kernel, "constant_args_idx": constants}

    def grid(self, numbers: dict[str, Any], scope: _Scope) -> tuple[Any, ...]:
        """The grid's sizes as nodes; `numbers` are those that the launch gives, by name."""
        fixed: dict[str | Expr, Expr] = {
            name: Int(int(value))
            for name, value in (*self.kernel.constants, *self.config.meta)
            if isinstance(value, int)
        }
        sizes = [substitute(size, fixed) for size in self.config.grid or self.kernel.grid]
        return tuple(scope.sizes(sizes, numbers))

    def blocks(self) -> dict[str, Any]:
        """What descriptors are made with, in torch's own form, by parameter."""
        meta = {name: value for name, value in self.config.meta if isinstance(value, int)}
        return {
            p.name: ("stable", ([int(evaluate(e, meta)) for e in p.block],))
            for p in self.kernel.params
            if p.kind is ir.ParamKind.DESCRIPTOR
        }

    def given(self, args: Sequence[Any]) -> dict[str, Any]:
        """The arguments of a launch, by the names of the kernel's parameters."""
        names = (p.name for p in self.kernel.params)
        return dict(zip(names, (args[i] for i in self.args), strict=True))

    def numbers(self, grid: Sequence[Any]) -> dict[str, Any]:
        """What a launch gives for its grid, by the kernel's names."""
        return dict(zip(self.kernel.grid_params, (grid[i] for i in self.grid_args), strict=True))

    def tuned(self) -> Any:
        """Triton's own object: the function with the one config."""
        import triton  # who converts no such kernel needs no Triton

        config = self.config
        options = dict((*self.kernel.options, *config.options))
        named = {name: options.pop(name) for name in _OF_CONFIG if name in options}
        meta = {name: _native(value) for name, value in config.meta}
        made = triton.Config(
            {**meta, **options}, num_warps=config.num_warps, num_stages=config.num_stages, **named
        )
        return triton.autotune(configs=[made], key=[])(self.function())

    def function(self) -> Any:
        """The function alone. Raises ConvertError FX104 where the source does not load."""
        return _function(_Key(self))

    def constants(self) -> dict[str, Any]:
        """Arguments that are the same in every launch."""
        return {name: _native(value) for name, value in self.kernel.constants}


@dataclass(frozen=True, eq=False)
class _Key:
    """A form that is equal to others of the same content."""

    form: TritonForm

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.form.hash == other.form.hash

    def __hash__(self) -> int:
        return hash(self.form.hash)


@cache  # as long as torch's own tables
def _entered(key: _Key) -> tuple[int, int]:
    """Numbers of kernel and constants, entered into torch's tables where they are not there."""
    kernel = kernel_side_table.add_kernel(key.form.tuned())
    return kernel, kernel_side_table.add_constant_args(key.form.constants())


@cache
def _function(key: _Key) -> Any:
    """The function of the kernel's source. Triton reads sources through `linecache`, so that no file is needed."""
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


def _native(value: ir.ConstantValue) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_native, value))
    if not isinstance(value, ir.DType):
        return value
    import triton.language as tl  # as above

    return getattr(tl, _FLOAT8.get(value, value.torch_name))  # Triton names them so
