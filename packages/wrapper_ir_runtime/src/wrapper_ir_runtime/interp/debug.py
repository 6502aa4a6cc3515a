"""Shows or saves values for `DebugValue`."""

from __future__ import annotations

from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.rules.debug import debug_steps
from wrapper_ir_lowering.steps import SaveValue, ShowLine, ShowValue
from wrapper_ir_runtime.debug import save_view, show_line, show_number, show_view
from wrapper_ir_runtime.interp.frame import Frame
from wrapper_ir_runtime.tensor_text import TensorView

T = TypeVar("T")


def show_values(op: ir.DebugValue, frame: Frame[T]) -> None:
    """Executes a debug op as emitted programs do."""
    for step in debug_steps(op):
        match step:
            case ShowLine(text=text):
                show_line(text)
            case ShowValue(title=title, value=Expr() as e):
                show_number(title, frame.number(e), e.kind.value)
            case ShowValue(title=title, value=ir.Value(type=ir.ScalarType(kind)) as value):
                show_number(title, frame.value(value), kind.value)
            case ShowValue(title=title, value=value):
                show_view(title, _view(value, frame))
            case SaveValue():
                save_view(_view(step.value, frame), step.directory, step.name, step.metadata)


def _view(value: ir.Value | Expr, frame: Frame[T]) -> TensorView:
    assert ir.is_tensor(value)
    machine, tensor = frame.machine, frame.value(value)
    return TensorView(
        dtype=value.type.dtype,
        sizes=tuple(machine.sizes(tensor)),
        strides=tuple(machine.strides(tensor)),
        device=str(machine.caller.facts(tensor).device),
        data=machine.data(tensor).buffer,
    )
