"""Writes symbols, run-time checks, and what is for readers only."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from wrapper_ir.layout import is_contiguous
from wrapper_ir.lowering.steps import (
    CheckAlignment,
    CheckCondition,
    CheckFinite,
    CheckGroups,
    CheckLayout,
    CheckReason,
    Comment,
    Define,
    ShowValue,
)
from wrapper_ir.quoting import python_string
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = [
    "check_alignment",
    "check_condition",
    "check_finite",
    "check_groups",
    "check_layout",
    "comment",
    "define",
    "show_value",
]


def define(step: Define, scope: FunctionScope) -> None:
    """A symbol is a Python number, computed once."""
    text = scope.int64(step.expr)
    scope.out.line(f"{scope.define(step.symbol)} = {text}")


def check_groups(step: CheckGroups, scope: FunctionScope) -> None:
    """Before anything runs: other processes may wait for what comes first."""
    scope.module.runtime("fail_group")
    names = [python_string(name) for name in step.groups]
    scope.out.items(f"{scope.module.helper(Helper.GROUPS)}(", names, ")")


def check_layout(step: CheckLayout, scope: FunctionScope) -> None:
    """Sizes and strides are checked in C. Half the cost of the checking function is saved where a tensor has to be
    contiguous; it then only has to say what is wrong."""
    name = scope.name(step.value)
    check = scope.module.helper(Helper.ASSERT_LAYOUT)
    scope.module.runtime("fail_layout")
    args = [name, scope.shape(step.sizes), scope.shape(step.strides)]
    message = f"argument {step.value.name}" if step.reason is CheckReason.ARGUMENT else step.message
    if message:
        args.append(python_string(message))
    if step.reason is not CheckReason.RESULT and is_contiguous(step.sizes, step.strides):
        with scope.out.block(f"if {name}.shape != {args[1]} or not {name}.is_contiguous():"):
            scope.out.items(f"{check}(", args, ")")
    else:
        scope.out.items(f"{check}(", args, ")")
    if step.alignment:
        _check_alignment(step.value, step.alignment, step.message, scope)


def check_alignment(step: CheckAlignment, scope: FunctionScope) -> None:
    """A comparison of the address."""
    _check_alignment(step.value, step.alignment, step.message, scope)


def _check_alignment(value: Value[TensorType], alignment: int, message: str, scope: FunctionScope) -> None:
    name = scope.name(value)
    with scope.out.block(f"if {name}.data_ptr() % {alignment}:"):
        fail = scope.module.runtime("fail_layout")
        note = f"{name} is not aligned to {alignment} bytes" + (f" ({message})" if message else "")
        scope.out.line(f"{fail}({python_string(note)})")


def check_condition(step: CheckCondition, scope: FunctionScope) -> None:
    """Not an `assert` statement, which `python -O` leaves out."""
    with scope.out.block(f"if not ({scope.expr(step.condition)}):"):
        fail = scope.module.runtime("fail_assertion")
        scope.out.line(f"{fail}({python_string(step.message)}, {python_string(str(step.condition))})")


def check_finite(step: CheckFinite, scope: FunctionScope) -> None:
    """A call of a helper."""
    scope.module.runtime("fail_finite")
    check = scope.module.helper(Helper.FINITE)
    texts = f"{python_string(step.value.name)}, {python_string(step.message)}"
    scope.out.line(f"{check}({scope.name(step.value)}, {texts})")


def comment(step: Comment, scope: FunctionScope) -> None:
    """A comment."""
    scope.out.comment(step.text)


def show_value(step: ShowValue, scope: FunctionScope) -> None:
    """Values are shown by the runtime."""
    show, value = scope.module.runtime("debug_value"), step.value
    args = [
        python_string(value.name),
        scope.name(value),
        python_string(step.mode.value),
        python_string(step.label),
    ]
    if isinstance(value.type, TensorType):
        args.append(python_string(value.type.dtype.value))
    if step.kernel:
        args += [f"phase={python_string(step.phase.value)}", f"kernel={python_string(step.kernel)}"]
    scope.out.line(f"{show}({', '.join(args)})")
