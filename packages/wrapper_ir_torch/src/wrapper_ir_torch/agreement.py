"""The store of a process group, as `wrapper_ir.runtime.agree` uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wrapper_ir.runtime import Agreement
from wrapper_ir_torch._compat import find_group

__all__ = ["TorchGroupStore", "agreement"]


class TorchGroupStore:
    """See `wrapper_ir.runtime.GroupStore`; the time-out is that of the store, which `init_process_group` sets."""

    def __init__(self, group: str) -> None:
        from torch.distributed import distributed_c10d  # only in a torch that has it

        found = find_group(group)
        self._store: Any = distributed_c10d._get_process_group_store(found)  # Any: torch leaves it untyped
        self.rank: int = found.rank()
        self.size: int = found.size()

    def add(self, key: str, amount: int) -> int:
        """See `GroupStore`."""
        return int(self._store.add(key, amount))

    def set(self, key: str, value: bytes) -> None:
        """See `GroupStore`."""
        self._store.set(key, value)

    def has(self, key: str) -> bool:
        """See `GroupStore`."""
        return bool(self._store.check([key]))

    def get(self, key: str) -> bytes:
        """See `GroupStore`."""
        try:
            self._store.wait([key])
        except RuntimeError as error:  # DistStoreError, where the store has waited as long as it may
            raise TimeoutError(str(error)) from error
        return bytes(self._store.get(key))


def agreement(groups: Sequence[str], manifest: Sequence[str]) -> Agreement:
    """What a program with symmetric memory calls first: its processes must be alike."""
    return Agreement(groups, manifest, TorchGroupStore)
