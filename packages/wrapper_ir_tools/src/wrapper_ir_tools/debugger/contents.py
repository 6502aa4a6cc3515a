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

    data: TensorView | Number

    @property
    def is_plain(self) -> bool:
        """True for a tensor or a number; False for a handle or a nested result."""
        return isinstance(self.data, TensorView | bool | int | float)

    @property
    def kind(self) -> str:
        """`f32[2, 3]` for a tensor, otherwise the class of the number."""
        match self.data:
            case TensorView(dtype=dtype, sizes=sizes):
                return f"{dtype.value}{list(sizes)}"
            case number:
                return type(number).__name__

    def lines(self) -> tuple[str, ...]:
        """Formats the content as lines."""
        match self.data:
            case TensorView() as tensor:
                return tensor_lines(tensor)
            case number:
                return (scalar_text(number),)

    def short(self) -> str:
        """Formats the content in one line: a number, or a tensor's statistics."""
        match self.data:
            case TensorView(data=data, dtype=dtype):
                return f"{self.kind} {summary_text(summarize(data, dtype))}"
            case number:
                return scalar_text(number)


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
    if not ir.is_tensor(value):
        return False
    dtype = value.type.dtype
    if not (dtype.is_floating or dtype.is_complex) or (dtype.itemsize > 1 and machine.is_finite(data)):
        return False
    summary = summarize(machine.data(data).buffer, dtype)
    return bool(summary.nan or (summary.inf and not nan_only))


_INF = float("inf")
