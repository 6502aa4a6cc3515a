"""Run-time checks."""

from __future__ import annotations

from typing import TypeGuard

from fx_converter import targets
from fx_converter.graph.scope import FunctionScope
from fx_converter.targets.checks import expectation
from wrapper_ir_lowering import steps
from wrapper_ir_torch import DTYPES


def check_inputs(step: steps.CheckInputs, scope: FunctionScope) -> None:
    """One node for all inputs of the program."""
    expected = tuple(expectation(want) for _, want in step.inputs)
    scope.call(targets.check_inputs, [scope.value(value) for value, _ in step.inputs], expected)


def check_storages(step: steps.CheckStorages, scope: FunctionScope) -> None:
    """One node for all arguments whose elements the program touches."""
    wanted = tuple((want.name, want.nbytes, want.itemsize) for _, want in step.storages)
    scope.call(targets.check_storages, [scope.value(value) for value, _ in step.storages], wanted)


def check_groups(step: steps.CheckGroups, scope: FunctionScope) -> None:
    """One node for all groups."""
    ranks = [(one.group, one.size, one.ranks, one.differences) for one in step.ranks]
    scope.call(targets.check_groups, list(step.groups), str(step.device), *([ranks] if ranks else []))
    if step.sharing:
        scope.call(targets.check_agreement, list(step.sharing), list(step.manifest))


def check_layout(step: steps.CheckLayout, scope: FunctionScope) -> None:
    """A node for the tensor."""
    wanted = list(scope.numbers(step.sizes)), list(scope.numbers(step.strides))
    named = (
        f"argument {step.value.name}" if step.reason is steps.CheckReason.ARGUMENT else f"%{step.value.name}"
    )
    name = f"{named}, {step.message}" if step.message else named
    scope.call(targets.assert_layout, scope.value(step.value), *wanted, step.alignment, name)


def check_result(step: steps.CheckResult, scope: FunctionScope) -> None:
    """A node for the tensor, with what is open of it."""
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
    """Whether a step holds an argument of the call against its type. It is not part of the op that it follows: whoever
    converts that leaves it to do."""
    return isinstance(step, steps.CheckLayout) and step.reason is steps.CheckReason.ARGUMENT


def check_alignment(step: steps.CheckAlignment, scope: FunctionScope) -> None:
    """A node for the tensor."""
    name = f"%{step.value.name}" + (f", {step.message}" if step.message else "")
    scope.call(targets.assert_alignment, scope.value(step.value), step.alignment, name)


def check_condition(step: steps.CheckCondition, scope: FunctionScope) -> None:
    """The condition is computed by nodes of its own."""
    scope.call(targets.assert_expr, scope.number(step.condition), step.message, str(step.condition))


def check_finite(step: steps.CheckFinite, scope: FunctionScope) -> None:
    """A node for the tensor."""
    scope.call(targets.assert_finite, scope.value(step.value), f"%{step.value.name}", step.message)
