"""Torch's boxed calling convention for compiled graphs."""

from collections.abc import Callable, Sequence
from typing import Any

Boxed = Callable[[list[Any]], Sequence[Any]]  # Any: tensors and numbers of any graph
"""Accepts the flat arguments in a list, which it clears, and returns the flat results."""
