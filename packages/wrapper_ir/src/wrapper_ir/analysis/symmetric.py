"""What operators do with symmetric memory after they are over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir.ir.atoms import values_in
from wrapper_ir.ir.ops import Arg, CallExtern, CollectiveStart, Op
from wrapper_ir.ir.schemas import ExternInfo
from wrapper_ir.ir.values import Value
from wrapper_ir.operators.symmetric import waits_for_all


def named_arguments_as_given(op: CallExtern | CollectiveStart, info: ExternInfo) -> Iterator[tuple[str, Arg]]:
    """Each argument that a call gives, by its name."""
    yield from zip((declared.name for declared in info.schema.args), op.args, strict=False)
    yield from op.kwargs


def named_arguments(op: CallExtern | CollectiveStart, info: ExternInfo) -> Iterator[tuple[str, list[Value]]]:
    """The values of each argument, by its name."""
    for name, arg in named_arguments_as_given(op, info):
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
