"""What values hold at one moment, on the host: kept after the run goes on, compared and printed without a tensor library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from wrapper_ir.ir.types import TensorType
from wrapper_ir.ir.values import Value, device_of
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
        """Whether it is a tensor or a number, not a handle or a nested result."""
        return isinstance(self.held, TensorView | bool | int | float)

    @property
    def kind(self) -> str:
        """`f32[2, 3]` of a tensor, else the class of the number."""
        if isinstance(self.held, TensorView):
            return f"{self.held.dtype.value}{list(self.held.sizes)}"
        return type(self.held).__name__

    def lines(self) -> tuple[str, ...]:
        """The content for a reader."""
        return tensor_lines(self.held) if isinstance(self.held, TensorView) else (scalar_text(self.held),)

    def short(self) -> str:
        """The content in a line: a number, or a tensor's statistics."""
        if not isinstance(self.held, TensorView):
            return scalar_text(self.held)
        return f"{self.kind} {summary_text(summarize(self.held.data, self.held.dtype))}"


# Any: a tensor of the machine, or a number
def content_of(value: Value, held: Any, machine: Machine[T]) -> Content:
    """The content of a tensor or a number; the tensor's bytes are copied."""
    if not machine.is_tensor(held):
        return Content(held)
    data = machine.data(held)
    view = TensorView(
        dtype=data.dtype,  # the tensor's own: the program may be wrong about it
        sizes=tuple(machine.sizes(held)),
        strides=tuple(machine.strides(held)),
        device=str(device_of(value)),
        data=data.buffer,
    )
    return Content(view)


def is_bad(value: Value, held: Any, machine: Machine[T], *, nan_only: bool = False) -> bool:
    """Whether a floating-point tensor or number holds a NaN or, unless `nan_only`, an infinity."""
    if not machine.is_tensor(held):
        return isinstance(held, float) and (held != held or (not nan_only and held in (_INF, -_INF)))
    type = value.type
    if not isinstance(type, TensorType) or not (type.dtype.is_floating or type.dtype.is_complex):
        return False
    if type.dtype.itemsize > 1 and machine.is_finite(held):
        return False
    found = summarize(machine.data(held).buffer, type.dtype)
    return bool(found.nan or (found.inf and not nan_only))


_INF = float("inf")
