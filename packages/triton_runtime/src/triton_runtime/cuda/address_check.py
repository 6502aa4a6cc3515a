"""Compares the addresses of many tensors in native code."""

from __future__ import annotations

import array
from collections.abc import Sequence

from triton_runtime.cuda.extension import AddressCheck, Extension


def address_check(extension: Extension, positions: Sequence[int], addresses: Sequence[int]) -> AddressCheck:
    """Returns a check that the tensors of a list at these positions have these addresses.

    The check raises TypeError for other objects, IndexError for a shorter list.
    """
    return extension.addresses(array.array("i", positions).tobytes(), array.array("Q", addresses).tobytes())
