"""Writes what a module holds its inputs against, in each call."""

from __future__ import annotations

from collections.abc import Sequence

from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import Writer, tuple_text
from wrapper_ir.inputs import Input, NumberInput, TensorInput
from wrapper_ir.lowering.steps import CheckInputs
from wrapper_ir.quoting import python_string

__all__ = ["check_inputs", "write_inputs"]


def write_inputs(scope: ModuleScope, out: Writer) -> None:
    """`inputs = InputGuard(...)`, where anything is checked."""
    checks = [step for step in scope.plan.main.steps if isinstance(step, CheckInputs)]
    if not checks:
        return
    with out.block(f"inputs = {scope.runtime('InputGuard')}("):
        out.line("torch,")
        for _, want in checks[0].inputs:
            scope.runtime(type(want).__name__)
            out.line(f"{_description(want)},")
    out.line(")")


def check_inputs(step: CheckInputs, scope: FunctionScope) -> None:
    """One call of a compiled check for all tensors, and a comparison of classes for numbers; what they do not pass is looked
    at, and explained."""
    entry = step.inputs
    names = [scope.name(value) for value, _ in entry]
    tensors = [n for n, (_, want) in zip(names, entry) if isinstance(want, TensorInput)]
    conditions = [f"not inputs.match({', '.join(tensors)})"] if tensors else []
    for name, (_, want) in zip(names, entry):
        if isinstance(want, NumberInput):
            conditions.append(_wrong_number(name, want))
    if len(conditions) == 1 and len(conditions[0]) < 90:
        head = f"if {conditions[0]}:"
        with scope.out.block(head):
            scope.out.items("inputs.check(", names, ")")
        return
    scope.out.line("if (")
    for number, condition in enumerate(conditions):
        scope.out.line(f"    {'or ' if number else ''}{condition}")
    with scope.out.block("):"):
        scope.out.items("inputs.check(", names, ")")


def _wrong_number(name: str, want: NumberInput) -> str:
    text = f"type({name}) is not {want.kind}"
    return f"{text} or not -0x8000000000000000 <= {name} < 0x8000000000000000" if want.kind == "int" else text


def _description(want: Input) -> str:
    name = python_string(want.name)
    if isinstance(want, NumberInput):
        return f"NumberInput(name={name}, kind={python_string(want.kind)})"
    more = ", or_cpu=True" if want.or_cpu else ""
    more += f", apart={_ints(want.apart)}" if want.apart else ""
    return (
        f"TensorInput(name={name}, text={python_string(want.text)}, dtype={python_string(want.dtype)}, "
        f"device={python_string(want.device)}, sizes={_ints(want.sizes)}, strides={_ints(want.strides)}{more})"
    )


def _ints(numbers: Sequence[int | None]) -> str:
    return tuple_text([str(n) for n in numbers])
