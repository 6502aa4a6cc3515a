"""Verifies that the processes of a group run the same program before they access each other's memory.

Each process writes its manifest (`wrapper_ir.artifact.agreement`) into the group's store. Rank 0 compares all
manifests with its own and writes a verdict, which the others read. No collective is involved: a process waits
for a key, with a time-out. A program that was agreed on before is not compared again, so that one process may
load or compile it alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

from wrapper_ir_runtime.failures import fail_agreement

_PREFIX = "wrapper_ir/agreement"
_AGREED = b"agreed"


class GroupStore(Protocol):
    """Key-value store of a process group, shared by all its processes."""

    rank: int
    size: int

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, initially 0; returns the new value."""

    def set(self, key: str, value: bytes) -> None:
        """Writes a key."""

    def has(self, key: str) -> bool:
        """Returns whether a key was written."""

    def get(self, key: str) -> bytes:
        """Waits for a key; raises TimeoutError after the store's time-out."""


class Agreement:
    """Compares programs at the first call. Every later call is one test."""

    def __init__(
        self, groups: Sequence[str], manifest: Sequence[str], open_store: Callable[[str], GroupStore]
    ) -> None:
        self._groups, self._manifest, self._open = tuple(groups), tuple(manifest), open_store
        self._is_open = True

    def __call__(self) -> None:
        """Raises ExecutionError WIR933 if the processes differ, or one does not answer."""
        if self._is_open:
            for group in self._groups:
                agree(self._open(group), group, self._manifest)
            self._is_open = False


def agree(store: GroupStore, group: str, manifest: Sequence[str]) -> None:
    """Returns when all processes of a group have the same manifest.

    Otherwise raises ExecutionError WIR933 in each of them. It reports the first difference, or the process
    that did not answer in time. A process writes two keys and a counter and reads one key; rank 0 reads one
    key of each other process.
    """
    if store.size < 2:
        return
    text = "\n".join(manifest).encode("utf-8", "surrogatepass")
    agreed = f"{_PREFIX}/agreed/{hashlib.sha256(text).hexdigest()}"
    if store.has(agreed):
        return
    turn = f"{_PREFIX}/{store.add(f'{_PREFIX}/count/{store.rank}', 1)}"
    store.set(f"{turn}/{store.rank}", text)
    if store.rank == 0:
        verdict = _compared(store, turn, tuple(manifest))
        if verdict == _AGREED:
            store.set(agreed, b"1")
        store.set(f"{turn}/verdict", verdict)
    else:
        try:
            verdict = store.get(f"{turn}/verdict")
        except TimeoutError:
            verdict = b"rank 0 did not compare the programs in time"
    if verdict != _AGREED:
        fail_agreement(group, store.rank, verdict.decode("utf-8", "replace"))


def _compared(store: GroupStore, turn: str, mine: tuple[str, ...]) -> bytes:
    for rank in range(1, store.size):
        try:
            theirs = store.get(f"{turn}/{rank}").decode("utf-8", "surrogatepass")
        except TimeoutError:
            return b"rank %d has no program for rank 0's in time: it compiles, hangs, or has ended" % rank
        difference = first_difference(mine, tuple(theirs.split("\n")))
        if difference is not None:
            a, b = (line or "nothing" for line in difference)
            return f"rank 0 has `{a}`, rank {rank} has `{b}`".encode("utf-8", "replace")
    return _AGREED


def first_difference(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, str] | None:
    """Returns the first lines that differ ('' for a missing line), or None if all are equal."""
    for a, b in zip(mine, theirs):
        if a != b:
            return a, b
    if len(mine) == len(theirs):
        return None
    count = min(len(mine), len(theirs))
    return (mine[count:] or ("",))[0], (theirs[count:] or ("",))[0]
