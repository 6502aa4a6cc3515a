"""Contents of values on the host, kept after the run continues.

They are compared and printed without a tensor library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.tensor_text import TensorView, scalar_text, summarize, summary_text, tensor_lines

T = TypeVar("T")
Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Content:
    """A tensor's elements in row-major order, or a number."""

    held: TensorView | Number

    @property
    def is_plain(self) -> bool:
        """True for a tensor or a number; False for a handle or a nested result."""
        return isinstance(self.held, TensorView | bool | int | float)

    @property
    def kind(self) -> str:
        """`f32[2, 3]` for a tensor, otherwise the class of the number."""
        if isinstance(self.held, TensorView):
            return f"{self.held.dtype.value}{list(self.held.sizes)}"
        return type(self.held).__name__

    def lines(self) -> tuple[str, ...]:
        """Formats the content as lines."""
        return tensor_lines(self.held) if isinstance(self.held, TensorView) else (scalar_text(self.held),)

    def short(self) -> str:
        """Formats the content in one line: a number, or a tensor's statistics."""
        if not isinstance(self.held, TensorView):
            return scalar_text(self.held)
        return f"{self.kind} {summary_text(summarize(self.held.data, self.held.dtype))}"


# Any: a tensor of the machine, or a number
def content_of(value: ir.Value, datum: Any, machine: Machine[T]) -> Content:
    """Copies a tensor to the host, or wraps a number."""
    if not machine.is_tensor(datum):
        return Content(datum)
    data = machine.data(datum)
    view = TensorView(
        # the run-time type: the program's type may be wrong
        dtype=data.dtype,
        sizes=tuple(machine.sizes(datum)),
        strides=tuple(machine.strides(datum)),
        device=str(ir.device_of(value)),
        data=data.buffer,
    )
    return Content(view)


def is_bad(value: ir.Value, data: Any, machine: Machine[T], *, nan_only: bool = False) -> bool:
    """True if a floating-point tensor or number has a NaN or, unless `nan_only`, an infinity."""
    if not machine.is_tensor(data):
        return isinstance(data, float) and (data != data or (not nan_only and data in (_INF, -_INF)))
    type = value.type
    if not isinstance(type, ir.TensorType) or not (type.dtype.is_floating or type.dtype.is_complex):
        return False
    if type.dtype.itemsize > 1 and machine.is_finite(data):
        return False
    summary = summarize(machine.data(data).buffer, type.dtype)
    return bool(summary.nan or (summary.inf and not nan_only))


_INF = float("inf")
