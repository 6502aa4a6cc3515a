"""What the launcher's native code does for emitted programs besides launches: products, and comparisons of addresses."""

from __future__ import annotations

import array
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton_runtime.cuda.extension import Extension
from triton_runtime.cuda.functions import addresses
from triton_runtime.cuda.tensors import DEVICE_TYPES, library_path

__all__ = ["address_check", "product"]

_PRODUCTS: Mapping[str, tuple[int, bool]] = {
    "addmm": (3, True),
    "baddbmm": (3, True),
    "bmm": (2, False),
    "mm": (2, False),
}
"""Functions of torch with `out` as their only keyword: how many operands, and whether the first is added."""


def address_check(
    extension: Extension, positions: Sequence[int], wanted: Sequence[int]
) -> Callable[[list[Any]], bool]:
    """What says of a list whether its tensors at these positions lie at these addresses. Raises TypeError for other objects,
    IndexError for a shorter list."""
    return extension.addresses(array.array("i", positions).tobytes(), array.array("Q", wanted).tobytes())


def product(extension: Extension, name: str, device_type: str) -> Callable[..., Any] | None:
    """`torch.mm`, or another product, for tensors of this type of device: torch's own kernel, called by its stable C function.

    What that does not take (other keywords, subclasses of tensors, complex numbers) is called as ever, and so is everything
    while a dispatch mode or a profiler watches operators. Real tensors that are negated lazily are not told apart: programs hold
    none. None where torch has no such function.
    """
    import torch

    operands, is_sum = _PRODUCTS[name]
    symbol = f"aoti_torch_{device_type}_{name}_out"
    try:
        [address] = struct.unpack("=Q", addresses(library_path(f"torch_{device_type}"), (symbol,)))
    except OSError:
        return None
    watchers = (torch._C._len_torch_dispatch_stack, torch._C._autograd._profiler_enabled)
    plain = getattr(torch, name)  # functions are found by name
    return extension.product(address, plain, watchers, operands, DEVICE_TYPES[device_type], int(is_sum))
