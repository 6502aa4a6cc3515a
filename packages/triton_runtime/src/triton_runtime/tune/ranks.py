"""Tuning on several processes at once, which share their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton_runtime.tune.timing_cache import Gather


def gather_over(group: Any = None) -> Gather:  # Any: a process group of torch's, or None for all processes
    """Exchanges texts over a process group of `torch.distributed`, in the order of its ranks."""

    def gather(text: str) -> Sequence[str]:
        from torch import distributed

        # texts, once gathered
        texts: list[Any] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(texts, text, group=group)
        return [str(one) for one in texts]

    return gather
