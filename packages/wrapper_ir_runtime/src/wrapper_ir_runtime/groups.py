"""Prepares the process groups of a program before each call: looks them up, checks this process's rank, and
watches them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir_runtime.failures import fail_group, fail_rank
from wrapper_ir_runtime.torch_types import TorchModule
from wrapper_ir_runtime.watch import GROUP_WATCHES, TorchGroup


class TorchGroups:
    """Process groups of the torch that is passed."""

    def __init__(self, torch: TorchModule) -> None:
        self._torch = torch

    def find(self, name: str) -> Any:  # Any: torch's ProcessGroup
        """Returns the group that this process registered under `name`; raises RuntimeError."""
        distributed = self._torch.distributed
        if not distributed.is_available():
            raise RuntimeError("this torch is built without torch.distributed")
        return distributed.distributed_c10d._resolve_process_group(name)

    def store(self, group: TorchGroup) -> Any:  # Any: torch's Store
        """Returns the store that a group's processes share."""
        return self._torch.distributed.distributed_c10d._get_process_group_store(group)

    def is_stuck(self, device: str, seconds: float) -> bool:
        """Returns whether a GPU is still busy after `seconds`."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return False
        waiting = threading.Thread(target=cuda.synchronize, args=(device,), daemon=True)
        waiting.start()
        waiting.join(seconds)
        return waiting.is_alive()


class ProgramGroups:
    """The process groups of a program on `device`; called first in each of its calls.

    `ranks` contains the fields of one `GroupRanks` each. `on_new` is called if a name refers to another group
    than in the previous call.

    Raises NotSupportedError WIR915 for a group that this process does not belong to, and ExecutionError
    WIR936 if the artifact belongs to another rank. Groups are watched if the device is a GPU; on CPUs, waits
    have time-outs.
    """

    def __init__(
        self,
        groups: TorchGroups,
        names: Sequence[str],
        device: str = "cpu",
        ranks: Sequence[tuple[str, int, Sequence[int], Sequence[tuple[int, str]]]] = (),
        on_new: Callable[[], None] = lambda: None,
    ) -> None:
        self._groups, self._names, self._device = groups, tuple(names), device
        self._on_new = on_new
        group_ranks = (
            GroupRanks(
                group=group,
                size=size,
                ranks=tuple(own),
                differences=tuple((rank, line) for rank, line in differences),
            )
            for group, size, own, differences in ranks
        )
        self._wanted = {one.group: one for one in group_ranks}
        self._checked: dict[str, weakref.ref[TorchGroup]] = {}

    def __call__(self) -> None:
        """Looks up every group, and checks those that are new under their name."""
        calls = GROUP_WATCHES.calls
        for name in self._names:
            calls[name] = calls.get(name, 0) + 1
            try:
                group = self._groups.find(name)
            except (RuntimeError, TypeError) as error:  # TypeError: the name contains lone surrogates
                fail_group(name, str(error))
            checked = self._checked.get(name)
            if checked is None or checked() is not group:
                self._check(name, group)

    def _check(self, name: str, group: TorchGroup) -> None:
        if name in self._wanted:
            check_rank(self._wanted[name], group.rank(), group.size())
        if self._device.startswith("cuda"):
            stuck = partial(self._groups.is_stuck, self._device)
            GROUP_WATCHES.begin(name, group, self._groups.store(group), stuck)
        self._checked[name] = weakref.ref(group)
        self._on_new()


def check_rank(expected: GroupRanks, rank: int, size: int) -> None:
    """Raises ExecutionError WIR936 unless the process of this rank may run the artifact."""
    if size != expected.size:
        fail_rank(
            expected.group,
            f"of {expected.size} processes, and here it has {size}",
            "capture the model again here",
        )
    if rank not in expected.ranks:
        difference = expected.difference(rank)
        why = f"{difference}" if difference else "its artifact was not compared with this one"
        fail_rank(
            expected.group,
            f"of {expected.size} processes, for rank {', '.join(map(str, expected.ranks))}, "
            f"and this is rank {rank}: {why}",
            f"load what rank {rank} has saved"
            + ("" if difference else ", or compare before saving: wrapper_ir_torch.compare_ranks(artifact)"),
        )
