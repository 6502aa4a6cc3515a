"""Writes the description of a module's inputs, with which each call compares its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.writer import Writer, tuple_text
from wrapper_ir.analysis.input_facts import Input, NumberInput
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering.steps import CheckInputs, CheckStorages


def write_inputs(scope: ModuleScope, out: Writer) -> None:
    """Writes `inputs = InputGuard(...)`, if inputs are checked."""
    checks = [step for step in scope.plan.main.steps if isinstance(step, CheckInputs)]
    if not checks:
        return
    with out.block(f"inputs = {scope.runtime('InputGuard')}("):
        out.line("torch,")
        for _, want in checks[0].inputs:
            scope.runtime(type(want).__name__)
            out.line(f"{_description(want)},")
    out.line(")")


def write_storages(scope: ModuleScope, has_kernels: bool, out: Writer) -> None:
    """Writes `storages = StorageGuard(...)`, if the program accesses elements of its arguments."""
    checks = [step for step in scope.plan.main.steps if isinstance(step, CheckStorages)]
    if not checks:
        return
    scope.runtime("StorageInput")
    with out.block(f"storages = {scope.runtime('StorageGuard')}("):
        out.line("kernels.values()," if has_kernels else "(),")
        for _, want in checks[0].storages:
            numbers = f"nbytes={want.nbytes}, itemsize={want.itemsize}"
            out.line(f"StorageInput(name={python_string(want.name)}, {numbers}),")
    out.line(")")


def _description(want: Input) -> str:
    name = python_string(want.name)
    if isinstance(want, NumberInput):
        return f"NumberInput(name={name}, kind={python_string(want.kind)})"
    more = ", or_cpu=True" if want.or_cpu else ""
    more += f", apart={_ints(want.apart)}" if want.apart else ""
    return (
        f"TensorInput(name={name}, text={python_string(want.text)}, dtype={python_string(want.dtype)}, "
        f"device={python_string(want.device)}, sizes={_ints(want.sizes)}, "
        f"strides={_ints(want.strides)}{more})"
    )


def _ints(numbers: Sequence[int | None]) -> str:
    return tuple_text([str(n) for n in numbers])
