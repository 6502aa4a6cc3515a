"""Writes run-time checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import NumberInput, TensorInput
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering import steps


def check_inputs(step: steps.CheckInputs, scope: FunctionScope) -> None:
    """Writes one call of a compiled check for all tensors, and a comparison of classes for numbers. The slow
    check examines failures."""
    entry = step.inputs
    names = [scope.name(value) for value, _ in entry]
    tensors = [n for n, (_, want) in zip(names, entry) if isinstance(want, TensorInput)]
    modes = f"{scope.module.helper(Helper.MODES)}()"
    conditions = [modes, *([f"not inputs.match({', '.join(tensors)})"] if tensors else [])]
    for name, (_, want) in zip(names, entry):
        if isinstance(want, NumberInput):
            conditions.append(_wrong_number(name, want))
    head = f"if {' or '.join(conditions)}:"
    if len(head) < 90:
        with scope.out.block(head):
            scope.out.items("inputs.check(", names, ")")
        return
    scope.out.line("if (")
    for number, condition in enumerate(conditions):
        scope.out.line(f"    {'or ' if number else ''}{condition}")
    with scope.out.block("):"):
        scope.out.items("inputs.check(", names, ")")


def check_storages(step: steps.CheckStorages, scope: FunctionScope) -> None:
    """Writes one call for all arguments, of native code if a kernel runtime provides it."""
    names = [scope.name(value) for value, _ in step.storages]
    head = f"if not storages.holds({', '.join(names)}):"
    if len(head) < 90:
        with scope.out.block(head):
            scope.out.items("storages.check(", names, ")")
        return
    scope.out.items("if not storages.holds(", names, "):")
    scope.out.items("    storages.check(", names, ")")


def _wrong_number(name: str, want: NumberInput) -> str:
    text = f"type({name}) is not {want.kind}"
    return f"{text} or not -0x8000000000000000 <= {name} < 0x8000000000000000" if want.kind == "int" else text


def check_groups(step: steps.CheckGroups, scope: FunctionScope) -> None:
    """Writes the check of groups before any work, since other processes may wait for the first collective."""
    text = f"{scope.module.helper(Helper.GROUPS)}({_strings(step.groups)}, {python_string(str(step.device))}"
    if step.ranks:
        text += f", {_literal([astuple(one) for one in step.ranks])}"
    scope.out.line(f"{scope.lookup('check_groups', text + ')')}()")
    if step.sharing:
        text = f"{scope.module.helper(Helper.AGREEMENT)}({_strings(step.sharing)}, {_strings(step.manifest)})"
        scope.out.line(f"{scope.lookup('agree', text)}()")


def _literal(nested: object) -> str:
    """Returns sequences of texts and numbers as tuples."""
    if isinstance(nested, list | tuple):
        return tuple_text([_literal(one) for one in nested])
    return python_string(nested) if isinstance(nested, str) else repr(nested)


def _strings(texts: Sequence[str]) -> str:
    return tuple_text([python_string(text) for text in texts])


def check_layout(step: steps.CheckLayout, scope: FunctionScope) -> None:
    """Checks sizes and strides in C. For contiguous layouts, an inline comparison halves the cost, and the
    function only reports failures."""
    name = scope.name(step.value)
    check = scope.module.helper(Helper.ASSERT_LAYOUT)
    scope.module.runtime("fail_layout")
    args = [name, scope.shape(step.sizes), scope.shape(step.strides)]
    message = f"argument {step.value.name}" if step.reason is steps.CheckReason.ARGUMENT else step.message
    if message:
        args.append(python_string(message))
    if step.reason is not steps.CheckReason.RESULT and ir.is_contiguous(step.sizes, step.strides):
        with scope.out.block(f"if {name}.shape != {args[1]} or not {name}.is_contiguous():"):
            scope.out.items(f"{check}(", args, ")")
    else:
        scope.out.items(f"{check}(", args, ")")
    if step.alignment:
        _check_alignment(step.value, step.alignment, step.message, scope)


def check_result(step: steps.CheckResult, scope: FunctionScope) -> None:
    """Compares the open properties of a result; the slow check examines failures. It always runs if the
    memory is open."""
    name, type = scope.name(step.value), step.value.type
    check = scope.module.runtime("check_written" if step.written else "check_result")
    conditions = [f"{name} is None"] * step.defined
    if step.dtype:
        conditions.append(f"{name}.dtype is not torch.{type.dtype.torch_name}")
    if step.device:
        text = f"torch.device({python_string(str(type.device))})"
        conditions.append(f"{name}.device != {scope.lookup('device', text)}")
    names = f"{python_string(step.value.name)}, {name}"
    more = "" if step.storage is None else f", {scope.expr(step.storage)}"
    call = f"{check}({names}, torch.{type.dtype.torch_name}, {python_string(str(type.device))}{more})"
    if step.memory:
        scope.out.line(call)
        return
    with scope.out.block(f"if {' or '.join(conditions)}:"):
        scope.out.line(call)


def check_apart(step: steps.CheckApart, scope: FunctionScope) -> None:
    """A call of the runtime: only unknown operators have this check."""
    names = ", ".join(scope.name(value) for value in (step.value, *step.operands))
    scope.out.line(f"{scope.module.runtime('check_apart')}({python_string(step.value.name)}, {names})")


def check_alignment(step: steps.CheckAlignment, scope: FunctionScope) -> None:
    """Compares the address."""
    _check_alignment(step.value, step.alignment, step.message, scope)


def _check_alignment(
    value: ir.Value[ir.TensorType], alignment: int, message: str, scope: FunctionScope
) -> None:
    name = scope.name(value)
    with scope.out.block(f"if {name}.data_ptr() % {alignment}:"):
        fail = scope.module.runtime("fail_layout")
        note = f"{name} is not aligned to {alignment} bytes" + (f" ({message})" if message else "")
        scope.out.line(f"{fail}({python_string(note)})")


def check_condition(step: steps.CheckCondition, scope: FunctionScope) -> None:
    """Writes an `if`, because `python -O` removes `assert` statements."""
    with scope.out.block(f"if not ({scope.expr(step.condition)}):"):
        fail = scope.module.runtime("fail_assertion")
        scope.out.line(f"{fail}({python_string(step.message)}, {python_string(str(step.condition))})")


def check_finite(step: steps.CheckFinite, scope: FunctionScope) -> None:
    """Calls a helper."""
    scope.module.runtime("fail_finite")
    check = scope.module.helper(Helper.FINITE)
    texts = f"{python_string(step.value.name)}, {python_string(step.message)}"
    scope.out.line(f"{check}({scope.name(step.value)}, {texts})")
