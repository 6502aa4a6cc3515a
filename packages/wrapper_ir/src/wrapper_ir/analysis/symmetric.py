"""What operators do with symmetric memory after they are over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir.atoms import values_in
from wrapper_ir.ops import CallExtern, CollectiveStart, Op
from wrapper_ir.schemas import ExternInfo
from wrapper_ir.symmetric_operators import waits_for_all
from wrapper_ir.values import Value

__all__ = ["lasting_arguments", "named_arguments"]


def named_arguments(op: CallExtern | CollectiveStart, info: ExternInfo) -> Iterator[tuple[str, list[Value]]]:
    """The values of each argument, by its name."""
    for declared, arg in zip(info.schema.args, op.args, strict=False):
        yield declared.name, values_in(arg, [])
    for name, arg in op.kwargs:
        yield name, values_in(arg, [])


def lasting_arguments(op: Op, operators: Mapping[str, ExternInfo]) -> list[Value]:
    """The tensors in symmetric memory that other processes may still read and write when the op is over for this one.
    `operators` are those declared, by name."""
    if not isinstance(op, CallExtern | CollectiveStart):
        return []
    info = operators.get(op.target)
    if info is None or not info.extern.symmetric or waits_for_all(info.schema):
        return []
    return [v for name, values in named_arguments(op, info) if name in info.extern.symmetric for v in values]
