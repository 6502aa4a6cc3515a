"""Run-time checks."""

from __future__ import annotations

from typing import TypeGuard

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from fx_converter.targets.checks import expectation
from wrapper_ir_lowering import steps
from wrapper_ir_torch import DTYPES


def check_inputs(step: steps.CheckInputs, scope: FunctionScope) -> None:
    """Adds one node for all inputs of the program."""
    expected = tuple(expectation(want) for _, want in step.inputs)
    scope.call(targets.check_inputs, [scope.value(value) for value, _ in step.inputs], expected)


def check_storages(step: steps.CheckStorages, scope: FunctionScope) -> None:
    """Adds one node for all arguments whose elements the program accesses."""
    expected = tuple((want.name, want.nbytes, want.itemsize) for _, want in step.storages)
    scope.call(targets.check_storages, [scope.value(value) for value, _ in step.storages], expected)


def check_groups(step: steps.CheckGroups, scope: FunctionScope) -> None:
    """Adds one node for all groups."""
    ranks = [(one.group, one.size, one.ranks, one.differences) for one in step.ranks]
    scope.call(targets.check_groups, list(step.groups), str(step.device), *([ranks] if ranks else []))
    if step.sharing:
        scope.call(targets.check_agreement, list(step.sharing), list(step.manifest))


def check_layout(step: steps.CheckLayout, scope: FunctionScope) -> None:
    layout = list(scope.numbers(step.sizes)), list(scope.numbers(step.strides))
    label = (
        f"argument {step.value.name}" if step.reason is steps.CheckReason.ARGUMENT else f"%{step.value.name}"
    )
    name = f"{label}, {step.message}" if step.message else label
    scope.call(targets.assert_layout, scope.value(step.value), *layout, step.alignment, name)


def check_result(step: steps.CheckResult, scope: FunctionScope) -> None:
    """Adds a node for the open properties of a tensor."""
    type = step.value.type
    if step.written:
        storage = 0 if step.storage is None else scope.number(step.storage)
        args = step.value.name, DTYPES[type.dtype], str(type.device), storage
        scope.call(targets.check_written, scope.value(step.value), *args)
        return
    parts = ("defined", step.defined), ("dtype", step.dtype), ("device", step.device), ("memory", step.memory)
    scope.call(
        targets.check_result,
        scope.value(step.value),
        step.value.name,
        DTYPES[type.dtype],
        str(type.device),
        [name for name, is_open in parts if is_open],
    )


def check_apart(step: steps.CheckApart, scope: FunctionScope) -> None:
    """A node for the result."""
    operands = [scope.value(value) for value in step.operands]
    scope.call(targets.check_apart, scope.value(step.value), step.value.name, operands)


def is_argument_check(step: steps.Step) -> TypeGuard[steps.CheckLayout]:
    """Returns whether a step compares an argument of the call with its type. Such a step is not part of the
    op that it follows, and is converted separately."""
    return isinstance(step, steps.CheckLayout) and step.reason is steps.CheckReason.ARGUMENT


def check_alignment(step: steps.CheckAlignment, scope: FunctionScope) -> None:
    name = f"%{step.value.name}" + (f", {step.message}" if step.message else "")
    scope.call(targets.assert_alignment, scope.value(step.value), step.alignment, name)


def check_condition(step: steps.CheckCondition, scope: FunctionScope) -> None:
    """Adds the nodes that compute the condition, and its check."""
    scope.call(targets.assert_expr, scope.number(step.condition), step.message, str(step.condition))


def check_finite(step: steps.CheckFinite, scope: FunctionScope) -> None:
    scope.call(targets.assert_finite, scope.value(step.value), f"%{step.value.name}", step.message)
