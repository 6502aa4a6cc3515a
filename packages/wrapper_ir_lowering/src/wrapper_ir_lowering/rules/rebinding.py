"""Checks tensors after ops that may have given them other memory than their types declare."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.rebinding import rebound_by, rebound_constants
from wrapper_ir.expr import Expr
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import CheckReason, Step


def check_rebound(op: ir.Op, state: FunctionState) -> Iterator[Step]:
    """Checks tensors that an op may have resized, and those that share their storage, against their types.

    The whole storage is checked too: slots of a pool may begin later.
    """
    rebound = rebound_by(op, state.program.analyses)
    if not rebound or not state.program.options.check_results:
        return
    moved = frozenset(state.program.analyses.effects(op).moves)
    checked: dict[ir.Value[ir.TensorType], Expr | None] = {}
    for value in rebound:
        is_moved = value in moved and not state.is_alive(value)
        for tensor in (*state.tenants(value),) if is_moved else (value, *state.tenants(value)):
            if ir.is_tensor(tensor):
                checked.setdefault(tensor, _whole(value, state))
    for tensor, whole in checked.items():
        yield from _held(tensor, whole, state)


def check_constants(state: FunctionState) -> Iterator[Step]:
    """Checks constants at the start of a call.

    An earlier call may have resized them before it failed.
    """
    if state.program.options.check_results:
        for value in rebound_constants(state.program.analyses):
            if ir.is_tensor(value):
                yield from _held(value, None, state)


def _held(tensor: ir.Value[ir.TensorType], whole: Expr | None, state: FunctionState) -> Iterator[Step]:
    type = tensor.type
    yield steps.CheckResult(
        value=tensor,
        defined=False,
        dtype=True,
        device=True,
        memory=True,
        written=True,
        storage=whole,
        at=state.at,
    )
    if state.knows((*type.sizes, *type.strides)):
        yield steps.CheckLayout(
            value=tensor, sizes=type.sizes, strides=type.strides, reason=CheckReason.RESULT, at=state.at
        )


def _whole(value: ir.Value[ir.Type], state: FunctionState) -> Expr | None:
    """The bytes of the storage that contains a value, if the program allocates it."""
    roots = state.aliasing.roots_at(value, state.at.position)
    whole = state.aliasing.chain(roots[0])[-1] if len(roots) == 1 else value
    if ir.is_storage(whole) and state.knows((whole.type.nbytes,)):
        return whole.type.nbytes
    return None
