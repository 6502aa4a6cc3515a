"""Torch's boxed calling convention for compiled graphs."""

from collections.abc import Callable, Sequence

Boxed = Callable[[list[object]], Sequence[object]]  # tensors and numbers of any graph
"""Accepts the flat arguments in a list, which it clears, and returns the flat results."""
