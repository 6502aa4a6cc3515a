"""What frontend, emitters and the torch machine share of torch: its objects for a program's types and operators."""

from __future__ import annotations

from wrapper_ir_torch._compat import (
    bytes_tensor,
    caller,
    empty_symmetric,
    find_group,
    is_overload,
    registered_symmetric,
    storage_key,
)
from wrapper_ir_torch.graphs import TorchGraphs
from wrapper_ir_torch.operators import HIGHER_ORDER, RUNNERS, Operator, resolve
from wrapper_ir_torch.types import DTYPE_OF, DTYPES, LAYOUTS, MEMORY_FORMATS, torch_device

__all__ = [
    "DTYPES",
    "DTYPE_OF",
    "HIGHER_ORDER",
    "LAYOUTS",
    "MEMORY_FORMATS",
    "RUNNERS",
    "Operator",
    "TorchGraphs",
    "bytes_tensor",
    "caller",
    "empty_symmetric",
    "find_group",
    "is_overload",
    "registered_symmetric",
    "resolve",
    "storage_key",
    "torch_device",
]
