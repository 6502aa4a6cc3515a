"""Tuning on several processes at once: all bring their times together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton_runtime.tune.timing_cache import Gather


def gather_over(group: Any = None) -> Gather:  # Any: a process group of torch's, or None for all processes
    """Exchanges texts over a process group of `torch.distributed`, in the order of its ranks."""

    def gather(text: str) -> Sequence[str]:
        from torch import distributed

        found: list[Any] = [None] * distributed.get_world_size(group)  # texts, once gathered
        distributed.all_gather_object(found, text, group=group)
        return [str(one) for one in found]

    return gather
