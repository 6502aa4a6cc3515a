"""Comparison of programs and artifacts between the processes of a group, through its store."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.agreement import artifact_manifest
from wrapper_ir.artifact.group_ranks import GroupRanks, with_group_ranks
from wrapper_ir_runtime import Agreement
from wrapper_ir_runtime import compare_ranks as compare
from wrapper_ir_torch._compat import find_group, group_store, program_groups


class TorchGroupStore:
    """See `wrapper_ir_runtime.GroupStore`. The time-out is the store's, set by `init_process_group`."""

    def __init__(self, name: str) -> None:
        group = find_group(name)
        self._store = group_store(group)
        self.rank: int = group.rank()
        self.size: int = group.size()

    def add(self, key: str, amount: int) -> int:
        """See `GroupStore`."""
        return int(self._store.add(key, amount))

    def set(self, key: str, value: bytes) -> None:
        """See `GroupStore`."""
        self._store.set(key, value)  # type: ignore[arg-type]  # torch's stub omits bytes

    def has(self, key: str) -> bool:
        """See `GroupStore`."""
        return bool(self._store.check([key]))

    def get(self, key: str) -> bytes:
        """See `GroupStore`."""
        try:
            self._store.wait([key])
        except RuntimeError as error:  # DistStoreError, at the store's time-out
            raise TimeoutError(str(error)) from error
        return bytes(self._store.get(key))


def agreement(groups: Sequence[str], manifest: Sequence[str]) -> Agreement:
    """Returns the check that all processes run the same program with symmetric memory. The program calls it
    first."""
    return Agreement(groups, manifest, TorchGroupStore)


def own_ranks(groups: Sequence[str]) -> tuple[GroupRanks, ...]:
    """Returns the rank of this process in each group that it belongs to."""
    ranks = []
    for name in groups:
        try:
            group = find_group(name)
        except (RuntimeError, TypeError):  # a capture needs no group
            continue
        ranks.append(GroupRanks(group=name, size=group.size(), ranks=(group.rank(),)))
    return tuple(ranks)


def compare_ranks(artifact: Artifact) -> Artifact:
    """Returns the artifact for all processes of its groups whose program, signature, constants and tuning are
    equal. Every process calls it with its own artifact before saving. For other processes, the artifact
    states the first line that differs.

    Each process waits for the others in the group's store, without a collective. Raises ExecutionError WIR937
    if one does not arrive within the store's time-out, NotSupportedError WIR915 if this process does not
    belong to a group.
    """
    groups, lines = groups_of(artifact.program), artifact_manifest(artifact)
    program_groups(groups)()
    return with_group_ranks(artifact, [compare(TorchGroupStore(name), name, lines) for name in groups])
