"""Writes launches of kernels, and what takes nested results apart; `operators.py` writes calls of operators."""

from __future__ import annotations

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir.expr import Expr
from wrapper_ir.kernels import CppKernel, KernelParam, ParamKind
from wrapper_ir.lowering import steps
from wrapper_ir.ops import Arg
from wrapper_ir.types import DType, ScalarType
from wrapper_ir.values import Value

__all__ = ["launch", "unpack"]


def launch(step: steps.Launch, scope: FunctionScope) -> None:
    """A call of the function that `program.py` writes for the kernel."""
    kernel = step.kernel
    if not isinstance(kernel, CppKernel):
        hint = "emit the program with py_wrapper or fx_converter"
        raise scope.error("CPP504", f"kernel @{kernel.name} is of kind {kernel.kind}, not cpp", hint)
    args = ", ".join(_argument(param, arg, scope) for param, arg in step.args)
    scope.line(f"{scope.module.kernels[kernel.name]}({args});")


def _argument(param: KernelParam, arg: Arg, scope: FunctionScope) -> str:
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
