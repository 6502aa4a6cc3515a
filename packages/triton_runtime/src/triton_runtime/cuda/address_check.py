"""Comparisons of the addresses of many tensors by the launcher's native code."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

from triton_runtime.cuda.extension import Extension


def address_check(
    extension: Extension, positions: Sequence[int], wanted: Sequence[int]
) -> Callable[[list[Any]], bool]:
    """What says of a list whether its tensors at these positions lie at these addresses. Raises TypeError for other objects,
    IndexError for a shorter list."""
    return extension.addresses(array.array("i", positions).tobytes(), array.array("Q", wanted).tobytes())
