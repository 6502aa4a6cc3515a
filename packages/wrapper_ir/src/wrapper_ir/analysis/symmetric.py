"""Finds arguments in symmetric memory that other processes may still access after an operator has
completed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.operators.symmetric import waits_for_all


def named_arguments_as_given(op: ir.OperatorCall, info: ir.ExternInfo) -> Iterator[tuple[str, ir.Arg]]:
    """The arguments of a call with their names, in order."""
    yield from zip((declared.name for declared in info.schema.args), op.args, strict=False)
    yield from op.kwargs


def named_arguments(op: ir.OperatorCall, info: ir.ExternInfo) -> Iterator[tuple[str, list[ir.Value]]]:
    """The values in each argument of a call, with its name."""
    for name, arg in named_arguments_as_given(op, info):
        yield name, ir.values_in(arg, [])


def lasting_arguments(op: ir.Op, operators: Mapping[str, ir.ExternInfo]) -> list[ir.Value]:
    """The tensors in symmetric memory that other processes may still access after the op has completed in
    this one.

    `operators` are the declared operators by name.
    """
    if not isinstance(op, ir.OperatorCall):
        return []
    info = operators.get(op.target)
    if info is None or not info.extern.symmetric or waits_for_all(info.schema):
        return []
    return [v for name, values in named_arguments(op, info) if name in info.extern.symmetric for v in values]
