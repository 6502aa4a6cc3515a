"""Run-time checks, and what is for readers."""

from __future__ import annotations

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from fx_converter.targets.inputs import expectation
from wrapper_ir.ops import AssertExpr, AssertFinite, AssertLayout, Comment, DebugValue, is_address_check
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
    """Constants have the layout that they were loaded with."""
    if not scope.program.options.assertions:
        return
    name = f"%{op.tensor.name}" + (f", {op.message}" if op.message else "")
    is_main = scope.function is scope.program.program.main
    is_covered = is_main and scope.position in scope.program.checks.covered
    if is_covered or is_address_check(op) or op.tensor in scope.program.constants:
        if op.alignment:
            scope.call(targets.assert_alignment, scope.value(op.tensor), op.alignment, name)
        return
    sizes, strides = scope.numbers(op.sizes), scope.numbers(op.strides)
    args = (scope.value(op.tensor), list(sizes), list(strides), op.alignment, name)
    scope.call(targets.assert_layout, *args)


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
