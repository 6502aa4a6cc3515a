"""Writes run-time checks."""

from __future__ import annotations

from collections.abc import Sequence

from cpp_wrapper.sources.scope import FunctionScope, dtype_text
from wrapper_ir import ir
from wrapper_ir.analysis.groups import sharing_ops
from wrapper_ir.analysis.input_facts import NumberInput, TensorInput
from wrapper_ir.expr import SymKind
from wrapper_ir.support.quoting import cpp_line_comment, cpp_string
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import op_place

_NUMBERS = {SymKind.INT: ir.DType.I64, SymKind.FLOAT: ir.DType.F64, SymKind.BOOL: ir.DType.BOOL}
_READS = {SymKind.INT: "item_int", SymKind.FLOAT: "item_float", SymKind.BOOL: "item_bool"}


def check_inputs(step: steps.CheckInputs, scope: FunctionScope) -> None:
    """Writes a call for each argument. Numbers arrive as tensors without dimensions and are read here."""
    pairs = []
    for value, want in step.inputs:
        match want:
            case NumberInput():
                _number(value, want, scope)
            case TensorInput():
                _tensor(value, want, scope)
                pairs += [(value, want, *step.inputs[other]) for other in want.apart]
    for value, want, other, beside in pairs:
        handles = f"{scope.handle(value)}, {scope.handle(other)}"
        scope.line(f"expect_apart({handles}, {cpp_string(want.name)}, {cpp_string(beside.name)});")


def check_storages(step: steps.CheckStorages, scope: FunctionScope) -> None:
    """Writes a comparison for each argument."""
    for value, want in step.storages:
        scope.line(f"expect_storage({scope.handle(value)}, {cpp_string(want.name)});")


def _tensor(value: ir.Value, want: TensorInput, scope: FunctionScope) -> None:
    texts = f"{cpp_string(want.name)}, {cpp_string(want.text)}"
    layout = f"{_numbers(want.sizes)}, {_numbers(want.fixed_strides)}"
    dtype = dtype_text(ir.DType(want.dtype))
    assert ir.is_tensor(value)
    place = scope.place(value.type.device)
    if place and want.or_cpu:
        place += ", true"
    scope.line(f"expect_tensor({scope.handle(value)}, {texts}, {dtype}, {layout}{place});")


def _numbers(numbers: Sequence[int | None]) -> str:
    return f"{{{', '.join('any' if n is None else str(n) for n in numbers)}}}"


def _number(value: ir.Value, want: NumberInput, scope: FunctionScope) -> None:
    assert ir.is_scalar(value)
    kind = value.type.kind
    texts = f"{cpp_string(want.name)}, {cpp_string(want.kind)}"
    scope.line(f"expect_number({scope.handle(value)}, {texts}, {dtype_text(_NUMBERS[kind])});")
    name = scope.numbers[value] = scope.variable(value.name, kind)
    scope.line(f"{name} = {_READS[kind]}({scope.handle(value)});")


def check_layout(step: steps.CheckLayout, scope: FunctionScope) -> None:
    """Writes a check of sizes and strides, then of the address."""
    handle, name, message = scope.handle(step.value), cpp_string(step.value.name), cpp_string(step.message)
    layout = f"{scope.numbers_text(step.sizes)}, {scope.numbers_text(step.strides)}"
    scope.line(f"check_layout({handle}, {layout}, {name}, {message});")
    if step.alignment:
        scope.line(f"check_alignment({handle}, {step.alignment}, {name}, {message});")


def check_result(step: steps.CheckResult, scope: FunctionScope) -> None:
    """Writes one call for all properties: it costs less than a call for each."""
    type = step.value.type
    place = ", run.gpu" if scope.on_gpu(type.device) else ""
    texts = f"{dtype_text(type.dtype)}, {cpp_string(step.value.name)}"
    if step.written:
        storage = "0" if step.storage is None else scope.number(step.storage)
        scope.line(f"check_written({scope.handle(step.value)}, {texts}, {storage}{place});")
        return
    scope.line(f"check_result({scope.handle(step.value)}, {texts}{place});")


def check_apart(step: steps.CheckApart, scope: FunctionScope) -> None:
    """Writes a call for each pair: only unknown operators have this check."""
    for operand in step.operands:
        name = cpp_string(step.value.name)
        scope.line(f"check_apart({scope.handle(step.value)}, {scope.handle(operand)}, {name});")


def check_alignment(step: steps.CheckAlignment, scope: FunctionScope) -> None:
    """Writes a check of the address."""
    texts = f"{cpp_string(step.value.name)}, {cpp_string(step.message)}"
    scope.line(f"check_alignment({scope.handle(step.value)}, {step.alignment}, {texts});")


def check_condition(step: steps.CheckCondition, scope: FunctionScope) -> None:
    """Writes an `if` that fails."""
    message = cpp_string(f"{step.message or 'assertion failed'}: {step.condition}")
    scope.line(f'if (!({scope.truth(step.condition)})) fail("WIR920", {message});')


def check_finite(step: steps.CheckFinite, scope: FunctionScope) -> None:
    """Writes a call that runs two operators of torch."""
    texts = f"{cpp_string(step.value.name)}, {cpp_string(step.message)}"
    scope.line(f"check_finite({scope.handle(step.value)}, {texts});")


def check_groups(step: steps.CheckGroups, scope: FunctionScope) -> None:
    """Writes a comment; if processes share memory, a check that the loader has compared their programs.

    The shim does not support process groups: Python's loader finds them before a call. In other processes the
    first collective of a missing group fails.
    """
    scope.line(f"// process groups: {cpp_line_comment(', '.join(step.groups))}")
    if step.sharing:
        scope.line(f"require_agreement({cpp_string(_sharing_text(step, scope))});")


_SHARING_HINT = (
    "load the library in a process of Python with cpp_wrapper.load, or build it of a program without the "
    "passes lower-collectives and register-buffers, and without operators over symmetric memory"
)


def _sharing_text(step: steps.CheckGroups, scope: FunctionScope) -> str:
    """Returns the message for a process that has not compared its program.

    It names the first op that needs the memory.
    """
    plan = scope.module.plan
    function, position = next(sharing_ops(plan.program, plan.analyses))
    groups = ", ".join(map(repr, step.sharing))
    return (
        f"processes share memory of group {groups}, which Python allocates, and nobody has compared their "
        f"programs:\n{op_place(function, position, plan.program)}\n  hint: {_SHARING_HINT}"
    )
