"""What recordings need of a tensor library: how one device records and replays, and where memory lies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from typing import Any, Protocol

Span = tuple[int, int]
"""Addresses of bytes: the first, and the one after the last."""


# Any in this file: tensors and numbers of a library that this package does not know.
class GraphDevice(Protocol):
    """What a tensor library does for recordings on one device."""

    def stream(self) -> Hashable | None:
        """The current stream; None where the work that it is given is being recorded already."""

    def follow(self, before: Hashable) -> None:
        """Makes the current stream wait for what `before` was given."""

    def addresses(self, args: Sequence[Any], positions: Sequence[int]) -> list[int | None]:
        """One a position of `args`: the address for those in `positions`."""

    def checker(self, args: Sequence[Any], positions: Sequence[int]) -> Callable[[list[Any]], bool]:
        """What says of arguments whether those at these positions lie where those of `args` do."""

    def is_here(self, args: Sequence[Any], positions: Sequence[int]) -> bool:
        """Whether all tensors at these positions lie on this device."""

    def buffer(self, arg: Any) -> Any | None:
        """A tensor in memory of recordings that an argument can be copied to; None where its elements share bytes."""

    def copy(self, targets: list[Any], sources: list[Any]) -> None:
        """Copies tensors, on the current stream."""

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], tuple[Any, ...]]:
        """Records what `run` does, and gives what replays it, and what `run` returned. Whatever `run` raises it raises, and the
        device is as before. What `run` allocates is memory of recordings, which another one is given once it is freed."""

    def warm_up(self, run: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Does what `run` does, and gives what it returns. What it allocates lies apart from all other memory, and is the device's again
        before the next recording, but for what somebody still has then."""

    def memory(self) -> Sequence[Span]:
        """All memory of recordings, in any order."""

    def spans(self, tensors: Sequence[Any]) -> Sequence[Span]:
        """Where the storage of each tensor lies."""

    def release(self, tensor: Any, args: Sequence[Any]) -> list[Any]:
        """Makes the storage of a tensor, a buffer or a result of a recording, free memory of recordings once the last of the tensors that
        are returned here, or views of them, is gone. They are as `args`, which lie there. All others stay where they are."""

    def storages(self, results: Sequence[Any]) -> Sequence[Any]:
        """What `holders` takes: for each result, its memory."""

    def holders(self, storages: Sequence[Any]) -> Sequence[int]:
        """How many tensors and other holders each storage has."""

    def giver(self, results: tuple[Any, ...], owned: Set[int]) -> Callable[[], tuple[Any, ...]]:
        """What makes new tensors over the memory of results after each replay; at positions in `owned` copies, which share memory
        where the results do."""

    def wait(self) -> None:
        """Waits until the device has done everything."""

    def is_exhausted(self, error: Exception) -> bool:
        """Whether an error says that the device has no memory left."""
