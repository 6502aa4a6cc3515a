"""Contents of values as numbers, statistics and lines of text, for debug ops in every engine and for tools.

No tensor library is needed: a `TensorView` is a layout and the bytes of its elements.
"""

from wrapper_ir_runtime.tensor_text.elements import blocks, decode
from wrapper_ir_runtime.tensor_text.lines import (
    TensorView,
    layout_text,
    scalar_text,
    summary_text,
    tensor_lines,
)
from wrapper_ir_runtime.tensor_text.numbers import number_text, statistic_text
from wrapper_ir_runtime.tensor_text.summary import TensorSummary, summarize

__all__ = [
    "TensorSummary",
    "TensorView",
    "blocks",
    "decode",
    "layout_text",
    "number_text",
    "scalar_text",
    "statistic_text",
    "summarize",
    "summary_text",
    "tensor_lines",
]
