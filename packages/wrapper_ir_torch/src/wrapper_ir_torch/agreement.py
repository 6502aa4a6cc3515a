"""Processes of a group compare programs and artifacts through its store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.agreement import artifact_manifest
from wrapper_ir.artifact.group_ranks import GroupRanks, with_group_ranks
from wrapper_ir_runtime import Agreement
from wrapper_ir_runtime import compare_ranks as compare
from wrapper_ir_torch._compat import find_group, group_store, program_groups


class TorchGroupStore:
    """See `wrapper_ir_runtime.GroupStore`; the time-out is that of the store, which `init_process_group` sets."""

    def __init__(self, group: str) -> None:
        found = find_group(group)
        self._store: Any = group_store(found)  # Any: torch leaves it untyped
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


def own_ranks(groups: Sequence[str]) -> tuple[GroupRanks, ...]:
    """This process alone, in those of the groups that it belongs to."""
    found = []
    for name in groups:
        try:
            group = find_group(name)
        except (RuntimeError, TypeError):  # who captures needs no group
            continue
        found.append(GroupRanks(group=name, size=group.size(), ranks=(group.rank(),)))
    return tuple(found)


def compare_ranks(artifact: Artifact) -> Artifact:
    """The artifact for all processes of its groups that have the same one: program, signature, constants and tuning. Every process calls
    it with its own, before it saves; for the others, the artifact knows the first line that they have otherwise.

    Each waits for the others in the store of the group, not in a collective. Raises ExecutionError WIR937 where one does not come within the
    store's time-out, NotSupportedError WIR915 where this process does not belong to a group.
    """
    groups, lines = groups_of(artifact.program), artifact_manifest(artifact)
    program_groups(groups)()
    return with_group_ranks(artifact, [compare(TorchGroupStore(name), name, lines) for name in groups])
