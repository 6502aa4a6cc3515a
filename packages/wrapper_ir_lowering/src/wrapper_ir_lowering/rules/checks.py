"""Run-time checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir import ir
from wrapper_ir.analysis.groups import groups_of, sharing_groups
from wrapper_ir.artifact.agreement import manifest
from wrapper_ir.operators.library import OpenFacts
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import CheckReason, Step

_NEAR = 20
"""Number of ops after a definition that are searched for its check."""


def prologue(state: FunctionState) -> Iterator[Step]:
    """The steps of a call of the program before its first op."""
    program = state.program
    if program.checks.entry:
        yield steps.CheckInputs(inputs=program.checks.entry)
    if program.checks.storages:
        yield steps.CheckStorages(storages=program.checks.storages)
    device = program.program.target.device
    if groups := groups_of(program.program, program.analyses):
        sharing = sharing_groups(program.program, program.analyses)
        yield steps.CheckGroups(
            groups=groups,
            device=device,
            ranks=tuple(one for one in program.ranks if one.group in groups),
            sharing=sharing,
            manifest=manifest(program.analyses) if sharing else (),
        )
    if device.type != ir.CPU.type and device.index is not None:
        yield steps.EnterDevice(device=device)


def check_arguments(position: int, state: FunctionState) -> Iterator[Step]:
    """Checks the layouts of parameters, if the op at `position` of `main` defines the last symbol in them."""
    for value in state.program.checks.layouts.get(position, ()) if state.is_main else ():
        if ir.is_tensor(value):
            yield steps.CheckLayout(
                value=value,
                sizes=value.type.sizes,
                strides=value.type.strides,
                reason=CheckReason.ARGUMENT,
                at=state.at,
            )


def check_result(value: ir.Value[ir.Type], state: FunctionState, open: OpenFacts) -> Iterator[Step]:
    """Checks a tensor that an operator allocated against its declared type.

    It checks the facts in `open`, and the layout if its symbols have values. Without these checks, a wrong
    declaration would let a kernel write out of bounds.
    """
    options = state.program.options
    if not ir.is_tensor(value) or not options.check_results:
        return
    type = value.type
    if open:
        yield steps.CheckResult(
            value=value,
            defined=open.defined,
            dtype=open.dtype,
            device=open.device,
            memory=open.memory,
            at=state.at,
        )
    if not state.knows((*type.sizes, *type.strides)):
        return
    if options.assertions and _checked_next(state.function.body, state.at.position, value):
        return
    yield steps.CheckLayout(
        value=value, sizes=type.sizes, strides=type.strides, reason=CheckReason.RESULT, at=state.at
    )


def assert_layout(op: ir.AssertLayout, state: FunctionState) -> Iterator[Step]:
    """A check for each tensor. Constants keep the layout that they were loaded with."""
    if not state.program.options.assertions:
        return
    for tensor, sizes, strides in zip(op.tensors, op.sizes, op.strides, strict=True):
        covered = state.is_main and (state.at.position, tensor) in state.program.checks.covered
        is_shown = sizes or strides or not op.alignment
        if is_shown and not (covered or state.is_global(tensor)):
            yield steps.CheckLayout(
                value=tensor,
                sizes=sizes,
                strides=strides,
                reason=CheckReason.ASSERTED,
                alignment=op.alignment,
                message=op.message,
                at=state.at,
            )
        elif op.alignment:
            yield steps.CheckAlignment(value=tensor, alignment=op.alignment, message=op.message, at=state.at)


def assert_expr(op: ir.AssertExpr, state: FunctionState) -> Iterator[Step]:
    """Checks the condition, unless assertions are omitted."""
    if state.program.options.assertions:
        yield steps.CheckCondition(condition=op.condition, message=op.message, at=state.at)


def assert_finite(op: ir.AssertFinite, state: FunctionState) -> Iterator[Step]:
    """Integers need no check."""
    dtype = op.tensor.type.dtype
    if state.program.options.assertions and (dtype.is_floating or dtype.is_complex):
        yield steps.CheckFinite(value=op.tensor, message=op.message, at=state.at)


def _checked_next(body: Sequence[ir.Op], position: int, value: ir.Value) -> bool:
    """Returns whether the ops after `position` check the declared layout of `value` before anything uses
    it."""
    for op in body[position + 1 : position + _NEAR]:
        match op:
            case ir.AssertLayout() if value in op.tensors:
                layouts = ir.asserted_layouts(op)
                return ir.is_tensor(value) and (value, value.type.sizes, value.type.strides) in layouts
            case ir.AssertLayout() | ir.Unpack() | ir.Drop() | ir.Free():
                pass
            case _:
                return False
    return False
