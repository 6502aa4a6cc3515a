"""Small functions and imports that an emitted module contains if it needs them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from py_wrapper._compat import FAST_IMPORTS


class Helper(enum.Enum):
    """Helpers of a module; the value is the helper's name."""

    EMPTY = "empty_cpu"
    EMPTY_CUDA = "empty_cuda"
    EMPTY_PINNED = "empty_pinned"
    EMPTY_REGISTERED = "REGISTERED_MEMORY"
    EMPTY_SYMMETRIC = "SYMMETRIC_MEMORY"
    AGREEMENT = "agreement"
    REINTERPRET = "reinterpret"
    ASSERT_LAYOUT = "assert_size_stride"
    WINDOW = "window"
    CLONE = "clone_strided"
    POISON = "poisoned"
    STACK = "stack_trips"
    FINITE = "check_finite"
    EXAMPLE = "example"
    CONSTANT = "constant"
    GROUPS = "program_groups"
    OPERATORS = "torch_operators"
    ANY_GRADIENT = "any_requires_grad"
    DEVICES = "device_functions"
    MODES = "count_modes"
    AUTOCAST = "is_autocast_enabled"
    GRADIENT = "set_grad_enabled"
    STREAM_KEY = "stream_key"
    GRAPHS = "TorchGraphs"
    FINISHED = "finished_collective"
    REPEATED = "repeated_operator"


_WINDOW = '''
def window(source, dtype, sizes, strides, offset):
    """A tensor over the storage of `source`, `offset` bytes after its first element."""
    size = dtype.itemsize
    if source.dtype is torch.uint8 and source.dim() == 1 and source.is_contiguous():
        if not (source.numel() | source.storage_offset() | offset) % size:
            return reinterpret(source.view(dtype), sizes, strides, offset // size)
    start = source.storage_offset() * source.element_size() + offset
    empty = torch.empty(0, dtype=dtype, device=source.device)
    return empty.set_(source.untyped_storage(), start // size, sizes, strides)
'''
_ASSERT_LAYOUT = f'''
{FAST_IMPORTS["torch_layout_check"]}


def assert_size_stride(x, sizes, strides, *note):
    """Stops unless `x` has this layout; torch's own check lets every tensor without elements pass."""
    if x.shape != sizes:
        fail_layout(f"expected sizes {{sizes}}, got {{tuple(x.shape)}} {{' '.join(note)}}")
    torch_layout_check(x, sizes, strides, *note)
'''
_CLONE = '''
def clone_strided(x):
    """A copy with a storage of its own and the same strides."""
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device).copy_(x)
'''
_POISON = '''
def poisoned(x):
    """Fills the whole storage under `x` with the byte {hex}."""
    x.untyped_storage().fill_({poison})
    return x
'''
_CONSTANT = '''
def constant(name, dtype, sizes, strides, mutable=False, device="cpu", alignment=1):
    """A tensor over the bytes of a constant; one that the program writes has bytes of its own, and so has one whose bytes
    are not aligned."""
    flat = parts.constant(name, torch.frombuffer, dtype)
    if mutable or flat.data_ptr() % alignment:
        flat = flat.clone()
    return flat.to(device).as_strided(sizes, strides)
'''
_STACK = '''
def stack_trips(trips):
    """Each carried value of all trips, stacked along a new first dimension; numbers are the last trip's."""
    return [torch.stack(c) if isinstance(c[0], torch.Tensor) else c[-1] for c in zip(*trips)]
'''
_FINITE = '''
def check_finite(x, name, message):
    """Stops where a floating-point tensor holds a NaN or an infinity."""
    if (x.is_floating_point() or x.is_complex()) and not torch.isfinite(x).all():
        fail_finite(name, message)
'''
_EXAMPLE = '''
def example(sizes, strides, dtype, generator):
    """A tensor with reproducible contents: normal floats, integers 0 and 1 (safe as indices)."""
    count = 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(max(count, 1), generator=generator)
    else:
        flat = torch.randint(0, 2, (max(count, 1),), generator=generator)
    return flat.to(dtype).as_strided(sizes, strides)
'''
_STREAM_KEY = f'''
{FAST_IMPORTS["raw_stream"]}


def stream_key():
    """The stream that work goes to; None where it is captured into a graph, whose memory nobody else may use."""
    return None if torch.cuda.is_current_stream_capturing() else raw_stream({{index}})
'''

HELPERS: Mapping[Helper, str] = {
    Helper.EMPTY: FAST_IMPORTS["empty_cpu"],
    Helper.EMPTY_CUDA: FAST_IMPORTS["empty_cuda"],
    Helper.EMPTY_PINNED: FAST_IMPORTS["empty_pinned"],
    Helper.EMPTY_REGISTERED: "from wrapper_ir_torch import REGISTERED_MEMORY",
    Helper.EMPTY_SYMMETRIC: "from wrapper_ir_torch import SYMMETRIC_MEMORY",
    Helper.AGREEMENT: "from wrapper_ir_torch import agreement",
    Helper.REINTERPRET: FAST_IMPORTS["reinterpret"],
    Helper.ASSERT_LAYOUT: _ASSERT_LAYOUT,
    Helper.WINDOW: _WINDOW,
    Helper.CLONE: _CLONE,
    Helper.POISON: _POISON,
    Helper.STACK: _STACK,
    Helper.FINITE: _FINITE,
    Helper.EXAMPLE: _EXAMPLE,
    Helper.CONSTANT: _CONSTANT,
    Helper.GROUPS: "from wrapper_ir_torch import program_groups",
    Helper.OPERATORS: "from wrapper_ir_torch import torch_operators",
    Helper.ANY_GRADIENT: FAST_IMPORTS["any_requires_grad"],
    Helper.MODES: FAST_IMPORTS["count_modes"],
    Helper.AUTOCAST: FAST_IMPORTS["is_autocast_enabled"],
    Helper.GRADIENT: FAST_IMPORTS["set_grad_enabled"],
    Helper.DEVICES: "from wrapper_ir_torch import device_functions",
    Helper.STREAM_KEY: _STREAM_KEY,
    Helper.FINISHED: "from wrapper_ir_torch import finished_collective",
    Helper.REPEATED: "from wrapper_ir_torch import repeated_operator",
    Helper.GRAPHS: "from wrapper_ir_torch import TorchGraphs",
}
"""The text that defines each helper: one line, or a function."""
