"""What operators do with symmetric memory after they are over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.operators.symmetric import waits_for_all


def named_arguments_as_given(op: ir.OperatorCall, info: ir.ExternInfo) -> Iterator[tuple[str, ir.Arg]]:
    """Each argument that a call gives, by its name."""
    yield from zip((declared.name for declared in info.schema.args), op.args, strict=False)
    yield from op.kwargs


def named_arguments(op: ir.OperatorCall, info: ir.ExternInfo) -> Iterator[tuple[str, list[ir.Value]]]:
    """The values of each argument, by its name."""
    for name, arg in named_arguments_as_given(op, info):
        yield name, ir.values_in(arg, [])


def lasting_arguments(op: ir.Op, operators: Mapping[str, ir.ExternInfo]) -> list[ir.Value]:
    """The tensors in symmetric memory that other processes may still read and write when the op is over for this one.
    `operators` are those declared, by name."""
    if not isinstance(op, ir.OperatorCall):
        return []
    info = operators.get(op.target)
    if info is None or not info.extern.symmetric or waits_for_all(info.schema):
        return []
    return [v for name, values in named_arguments(op, info) if name in info.extern.symmetric for v in values]
