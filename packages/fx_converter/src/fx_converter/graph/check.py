"""Run-time checks, and what is for readers."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from fx_converter.targets.inputs import expectation
from wrapper_ir.ops import AssertExpr, AssertFinite, AssertLayout, Comment, DebugValue
from wrapper_ir.types import TensorType

__all__ = [
    "assert_expr",
    "assert_finite",
    "assert_layout",
    "check_arguments",
    "check_layouts",
    "comment",
    "debug_value",
]


def assert_layout(op: AssertLayout, scope: FunctionScope) -> None:
    """A node for each tensor. Constants have the layout that they were loaded with."""
    if not scope.program.options.assertions:
        return
    is_main = scope.function is scope.program.program.main
    for tensor, sizes, strides in zip(op.tensors, op.sizes, op.strides, strict=True):
        name = f"%{tensor.name}" + (f", {op.message}" if op.message else "")
        is_covered = is_main and (scope.position, tensor) in scope.program.checks.covered
        is_shown = sizes or strides or not op.alignment
        if is_shown and not (is_covered or tensor in scope.program.constants):
            wanted = list(scope.numbers(sizes)), list(scope.numbers(strides))
            scope.call(targets.assert_layout, scope.value(tensor), *wanted, op.alignment, name)
        elif op.alignment:
            scope.call(targets.assert_alignment, scope.value(tensor), op.alignment, name)


def check_arguments(scope: FunctionScope) -> None:
    """One node for all inputs of the program."""
    entry = scope.program.checks.entry
    if entry:
        expected = tuple(expectation(want) for _, want in entry)
        scope.call(targets.check_inputs, [scope.value(value) for value, _ in entry], expected)


def check_layouts(position: int, scope: FunctionScope) -> None:
    """The layouts of parameters, where the op at `position` of `main` defines the last symbol that they mention."""
    for value in scope.program.checks.layouts.get(position, ()):
        if isinstance(value.type, TensorType):
            sizes, strides = scope.numbers(value.type.sizes), scope.numbers(value.type.strides)
            args = (scope.value(value), list(sizes), list(strides), 0, f"argument {value.name}")
            scope.call(targets.assert_layout, *args)


def assert_expr(op: AssertExpr, scope: FunctionScope) -> None:
    """The condition is computed by nodes of its own."""
    if scope.program.options.assertions:
        scope.call(targets.assert_expr, scope.number(op.condition), op.message, str(op.condition))


def assert_finite(op: AssertFinite, scope: FunctionScope) -> None:
    """Integers pass without being looked at."""
    type = op.tensor.type
    if not scope.program.options.assertions or not isinstance(type, TensorType):
        return
    if type.dtype.is_floating or type.dtype.is_complex:
        scope.call(targets.assert_finite, scope.value(op.tensor), f"%{op.tensor.name}", op.message)


def comment(op: Comment, scope: FunctionScope) -> None:
    """A node that does nothing."""
    scope.call(targets.comment, op.text)


def debug_value(op: DebugValue, scope: FunctionScope) -> None:
    """A node for every value."""
    for value in op.values:
        dtype = value.type.dtype.value if isinstance(value.type, TensorType) else ""
        where = (op.phase.value, op.kernel) if op.kernel else ()
        scope.call(
            targets.debug_value, scope.value(value), value.name, op.mode.value, op.label, dtype, *where
        )
