"""What values hold, as numbers, statistics and lines of text: what debug ops print in every engine, and what tools show.

No tensor library is needed: a `TensorView` is a layout and the bytes of its elements.
"""

from wrapper_ir.debug.elements import blocks, decode
from wrapper_ir.debug.numbers import number_text, statistic_text
from wrapper_ir.debug.summary import TensorSummary, summarize
from wrapper_ir.debug.text import TensorView, layout_text, scalar_text, summary_text, tensor_lines

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
