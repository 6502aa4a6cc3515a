"""Tuning on several processes at once, which share their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triton_runtime.tune.timing_cache import Gather

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def gather_over(group: ProcessGroup | None = None) -> Gather:
    """Exchanges texts over a process group (None: all processes), in the order of its ranks."""

    def gather(text: str) -> Sequence[str]:
        from torch import distributed

        texts: list[str | None] = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(texts, text, group=group)
        return [str(one) for one in texts]

    return gather
