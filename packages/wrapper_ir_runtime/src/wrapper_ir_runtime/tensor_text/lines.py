"""Formats tensors and numbers as lines of text, equal in all engines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir_runtime.tensor_text.elements import Number, decode
from wrapper_ir_runtime.tensor_text.numbers import number_text, statistic_text
from wrapper_ir_runtime.tensor_text.summary import TensorSummary, summarize

WHOLE = 64
"""Tensors of up to this many elements are shown completely, larger ones as statistics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorView:
    """A tensor on the host: original layout and device, and elements in row-major order, little-endian."""

    dtype: ir.DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    data: memoryview

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


def tensor_lines(tensor: TensorView) -> tuple[str, ...]:
    """Returns the layout, then all elements, one row of the last dimension per line.

    More than `WHOLE` elements are summarized by statistics. Example: `f32[2, 2] strides [2, 1] on cpu`, `[[1,
    2],`, ` [3, 4]]`.
    """
    layout = layout_text(tensor)
    if tensor.elements > WHOLE:
        return f"{layout}, {tensor.elements} elements", summary_text(summarize(tensor.data, tensor.dtype))
    is_double = tensor.dtype in (ir.DType.F64, ir.DType.C128)
    texts = iter(_element_texts(decode(tensor.data, tensor.dtype), tensor.dtype, is_double))
    return layout, *_rows(tensor.sizes, texts)


def layout_text(tensor: TensorView) -> str:
    """Returns the layout: `f32[2, 3] strides [3, 1] on cpu`."""
    return f"{tensor.dtype.value}{list(tensor.sizes)} strides {list(tensor.strides)} on {tensor.device}"


def summary_text(summary: TensorSummary) -> str:
    """Returns `mean 0.5, min 0, max 1, std 0.1, nan 0, inf 0`; only the counts if no element is finite."""
    counts = f"nan {summary.nan}, inf {summary.inf}"
    if summary.mean is None or summary.minimum is None or summary.maximum is None or summary.std is None:
        return counts
    kind = "abs " if isinstance(summary.mean, complex) else ""
    extremes = f"min {kind}{statistic_text(summary.minimum)}, max {kind}{statistic_text(summary.maximum)}"
    return f"mean {statistic_text(summary.mean)}, {extremes}, std {statistic_text(summary.std)}, {counts}"


def scalar_text(value: bool | int | float) -> str:
    """Returns `int 3`, `float 0.5` or `bool True`."""
    return f"{type(value).__name__} {number_text(value)}"


def _element_texts(numbers: Sequence[Number], dtype: ir.DType, is_double: bool) -> list[str]:
    texts = [number_text(x, is_double) for x in numbers]
    if dtype is ir.DType.F4E2M1FNX2:  # two numbers are one element
        return [f"({low}, {high})" for low, high in zip(texts[::2], texts[1::2])]
    return texts


def _rows(sizes: tuple[int, ...], texts: Iterator[str]) -> list[str]:
    """Formats nested lists of elements as lines. Rows after the first are indented to their depth."""
    if not sizes:
        return [next(texts)]
    if math.prod(sizes) == 0:
        return ["[]"]
    if len(sizes) == 1:
        return [f"[{', '.join(next(texts) for _ in range(sizes[0]))}]"]
    lines: list[str] = []
    for position in range(sizes[0]):
        inner = [f" {line}" for line in _rows(sizes[1:], texts)]
        if position == 0:
            inner[0] = "[" + inner[0][1:]
        inner[-1] += "]" if position == sizes[0] - 1 else ","
        lines += inner
    return lines
