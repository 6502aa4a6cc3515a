"""What a program does with its process groups before each call: it finds them, holds this process's rank against the artifact's, and has
them watched."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from wrapper_ir.artifact.group_ranks import GroupRanks
from wrapper_ir_runtime.failures import fail_group, fail_rank
from wrapper_ir_runtime.watch import GROUP_WATCHES

# Any in this file: torch's groups and stores, which it leaves untyped


class TorchGroups:
    """Process groups of the torch that is handed in."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch: Any = torch

    def find(self, name: str) -> Any:
        """The group that this process has registered under `name`; raises RuntimeError."""
        distributed = self._torch.distributed
        if not distributed.is_available():
            raise RuntimeError("this torch is built without torch.distributed")
        return distributed.distributed_c10d._resolve_process_group(name)

    def store(self, group: Any) -> Any:
        """The store that a group's processes share."""
        return self._torch.distributed.distributed_c10d._get_process_group_store(group)

    def is_stuck(self, device: str, seconds: float) -> bool:
        """Whether a GPU is still at work after so long."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return False
        waiting = threading.Thread(target=cuda.synchronize, args=(device,), daemon=True)
        waiting.start()
        waiting.join(seconds)
        return waiting.is_alive()


class ProgramGroups:
    """Called first in each call of a program on `device`. `ranks` are the fields of a `GroupRanks` each. `on_new` is called where a name has another
    group than in the call before.

    Raises NotSupportedError WIR915 for a group that this process does not belong to, ExecutionError WIR936 where the artifact is
    another rank's. Groups are watched where the device is a GPU: the host has time-outs of its own.
    """

    def __init__(
        self,
        groups: TorchGroups,
        names: Sequence[str],
        device: str = "cpu",
        ranks: Sequence[Any] = (),
        on_new: Callable[[], None] = lambda: None,
    ) -> None:
        self._groups, self._names, self._device = groups, tuple(names), device
        self._on_new = on_new
        wanted = (
            GroupRanks(group=group, size=size, ranks=tuple(own), differences=tuple(map(tuple, differences)))
            for group, size, own, differences in ranks
        )
        self._wanted = {one.group: one for one in wanted}
        self._checked: dict[str, weakref.ref[Any]] = {}

    def __call__(self) -> None:
        """One look-up a group; what is new under a name is checked."""
        calls = GROUP_WATCHES.calls
        for name in self._names:
            calls[name] = calls.get(name, 0) + 1
            try:
                group = self._groups.find(name)
            except (RuntimeError, TypeError) as error:  # a name with lone surrogates is not a string there
                fail_group(name, str(error))
            known = self._checked.get(name)
            if known is None or known() is not group:
                self._check(name, group)

    def _check(self, name: str, group: Any) -> None:
        if name in self._wanted:
            check_rank(self._wanted[name], group.rank(), group.size())
        if self._device.startswith("cuda"):
            stuck = partial(self._groups.is_stuck, self._device)
            GROUP_WATCHES.begin(name, group, self._groups.store(group), stuck)
        self._checked[name] = weakref.ref(group)
        self._on_new()


def check_rank(wanted: GroupRanks, rank: int, size: int) -> None:
    """Raises ExecutionError WIR936 unless the process of this rank may run the artifact."""
    if size != wanted.size:
        fail_rank(
            wanted.group,
            f"of {wanted.size} processes, and here it has {size}",
            "capture the model again here",
        )
    if rank not in wanted.ranks:
        difference = wanted.difference(rank)
        why = f"{difference}" if difference else "its artifact was not compared with this one"
        fail_rank(
            wanted.group,
            f"of {wanted.size} processes, for rank {', '.join(map(str, wanted.ranks))}, and this is rank {rank}: {why}",
            f"load what rank {rank} has saved"
            + ("" if difference else ", or compare before saving: wrapper_ir_torch.compare_ranks(artifact)"),
        )
