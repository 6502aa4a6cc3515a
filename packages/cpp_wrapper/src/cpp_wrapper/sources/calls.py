"""Writes launches of kernels, and what takes nested results apart; `operators.py` writes calls of operators."""

from __future__ import annotations

from cpp_wrapper.sources.gpu import chosen_kernel
from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir.expr import Expr
from wrapper_ir.kernels import CppKernel, KernelParam, MultiKernel, ParamKind, TritonKernel
from wrapper_ir.lowering import steps
from wrapper_ir.ops import Arg
from wrapper_ir.types import DType, ScalarType
from wrapper_ir.values import Value

__all__ = ["launch", "unpack"]


def launch(step: steps.Launch, scope: FunctionScope) -> None:
    """A call of the function that `program.py` or `gpu.py` writes for the kernel."""
    kernel = step.kernel
    values = [arg for _, arg in step.args]
    grid: tuple[Expr, ...] = step.grid
    if isinstance(kernel, MultiKernel):
        variant = kernel.variants[0]
        kernel = chosen_kernel(kernel, scope.module.plan)
        values, grid = [values[i] for i in variant.args], tuple(grid[i] for i in variant.grid)
    launchers, function = scope.module.launchers, scope.module.kernels.get(kernel.name)
    if not isinstance(kernel, CppKernel | TritonKernel) or (function or launchers.get(kernel.name)) is None:
        hint = "emit the program with py_wrapper or fx_converter"
        where = scope.module.plan.program.target.device
        raise scope.error("CPP504", f"kernel @{kernel.name} is of kind {kernel.kind}, on {where}", hint)
    texts = [_argument(param, value, scope) for param, value in zip(kernel.params, values, strict=True)]
    if function is None:
        texts = ["run", *texts, *(scope.number(e) for e in grid)]
    scope.line(f"{function or launchers[kernel.name]}({', '.join(texts)});")


def _argument(param: KernelParam, arg: Arg, scope: FunctionScope) -> str:
    if param.kind is ParamKind.DESCRIPTOR and isinstance(arg, Value):
        return scope.handle(arg)
    if param.kind is ParamKind.POINTER:
        if isinstance(arg, Value):
            return f"data({scope.handle(arg)})"
        if arg is None:
            return "nullptr"
    elif isinstance(arg, Expr):
        if param.dtype is DType.BOOL:
            return scope.truth(arg)
        return scope.real(arg) if param.dtype.is_floating else scope.number(arg)
    elif isinstance(arg, Value) and arg in scope.numbers:
        return scope.numbers[arg]
    raise scope.error("CPP505", f"{arg!r} is not an argument for parameter {param.name}")


def unpack(step: steps.Unpack, scope: FunctionScope) -> None:
    """Another handle of one of the results, or a number."""
    place = scope.places.get(step.source, {}).get(step.path)
    if place is None and not step.path:
        place = scope.handle(step.source)
    if place is None:
        raise scope.error(
            "CPP501",
            "this edition does not write results that are neither tensors, lists of them nor numbers",
        )
    if isinstance(step.result.type, ScalarType):
        scope.numbers[step.result] = place
    else:
        scope.line(f"{scope.bind(step.result)} = same({place});")
