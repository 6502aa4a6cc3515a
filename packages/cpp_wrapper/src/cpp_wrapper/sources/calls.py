"""Writes launches of kernels and reads of nested results; `operators.py` writes calls of operators."""

from __future__ import annotations

from collections.abc import Sequence

from cpp_wrapper.sources.gpu import chosen_variants
from cpp_wrapper.sources.operator_kernels import operator_call
from cpp_wrapper.sources.operators import call_operator
from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir_lowering import steps


def launch(step: steps.Launch, scope: FunctionScope) -> None:
    """Writes a call of the function that `program.py` or `gpu.py` writes for the kernel.

    For several equivalent kernels, writes a `switch` that chooses by sizes at run time.
    """
    kernel, values = step.kernel, [arg for _, arg in step.args]
    if not isinstance(kernel, ir.MultiKernel):
        _launch(kernel, values, step.grid, step, scope)
        return
    variants = chosen_variants(kernel)
    if len(variants) == 1:
        _launch_variant(variants[0], values, step, scope)
        return
    distances = [_distance(variant, [values[i] for i in variant.args], scope) for variant in variants]
    scope.line(f"switch (nearest({{{', '.join(distances)}}})) {{")
    for number, variant in enumerate(variants):
        with scope.indented():
            scope.line(f"case {number}:")
            with scope.indented():
                _launch_variant(variant, values, step, scope)
                scope.line("break;")
    scope.line("}")


def _launch_variant(
    variant: ir.Variant, values: Sequence[ir.Arg], step: steps.Launch, scope: FunctionScope
) -> None:
    kernel = scope.module.plan.program.kernel(variant.kernel)
    _launch(kernel, [values[i] for i in variant.args], [step.grid[i] for i in variant.grid], step, scope)


def _distance(variant: ir.Variant, values: Sequence[ir.Arg], scope: FunctionScope) -> str:
    """Returns text for the distance between sizes of tensors and the size hints of a kernel."""
    shapes = [v.type.sizes for v in values if ir.is_tensor(v)]
    pairs = [pair for sizes, hints in zip(shapes, variant.hints) for pair in zip(sizes, hints)]
    if [*map(len, shapes)] != [*map(len, variant.hints)] or any(hint is None for _, hint in pairs):
        return "no_hints"
    return f"distance({{{', '.join(f'{{{scope.number(size)}, {hint}}}' for size, hint in pairs)}}})"


def _launch(
    kernel: ir.KernelDef,
    values: Sequence[ir.Arg],
    grid: Sequence[Expr],
    step: steps.Launch,
    scope: FunctionScope,
) -> None:
    if isinstance(kernel, ir.OperatorKernel):
        scope.step = call = operator_call(kernel, values, step)
        call_operator(call, scope)
        return
    launchers, function = scope.module.launchers, scope.module.kernels.get(kernel.name)
    if (
        not isinstance(kernel, ir.CppKernel | ir.TritonKernel)
        or (function or launchers.get(kernel.name)) is None
    ):
        hint = "emit the program with py_wrapper or fx_converter"
        where = scope.module.plan.program.target.device
        raise scope.error("CPP504", f"kernel @{kernel.name} is of kind {kernel.kind}, on {where}", hint)
    texts = [_argument(param, value, scope) for param, value in zip(kernel.params, values, strict=True)]
    if function is None:
        texts = ["run", *texts, *(scope.number(e) for e in grid)]
    scope.line(f"{function or launchers[kernel.name]}({', '.join(texts)});")


def _argument(param: ir.KernelParam, arg: ir.Arg, scope: FunctionScope) -> str:
    match param.kind, arg:
        case ir.ParamKind.DESCRIPTOR, ir.Value():
            return scope.handle(arg)
        case ir.ParamKind.POINTER, ir.Value():
            return f"data({scope.handle(arg)})"
        case ir.ParamKind.POINTER, None:
            return "nullptr"
        case ir.ParamKind.SCALAR, Expr():
            if param.dtype is ir.DType.BOOL:
                return scope.truth(arg)
            return scope.real(arg) if param.dtype.is_floating else scope.number(arg)
        case ir.ParamKind.SCALAR, ir.Value() if arg in scope.numbers:
            return scope.numbers[arg]
        case _:
            raise scope.error("CPP505", f"{arg!r} is not an argument for parameter {param.name}")


def unpack(step: steps.Unpack, scope: FunctionScope) -> None:
    """Writes another handle of one of the results, or names a number."""
    place = scope.places.get(step.source, {}).get(step.path)
    if place is None and not step.path:
        place = scope.handle(step.source)
    if place is None:
        raise scope.error(
            "CPP501",
            "this edition does not write results that are neither tensors, lists of them nor numbers",
        )
    if ir.is_scalar(step.result):
        scope.numbers[step.result] = place
    else:
        scope.line(f"{scope.bind(step.result)} = same({place});")
