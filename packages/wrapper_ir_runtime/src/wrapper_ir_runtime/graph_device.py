"""The tensor library's interface for CUDA graphs: capture, replay and memory addresses on one device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Span = tuple[int, int]
"""A range of byte addresses: the first byte, and one past the last."""


class GraphDevice(Protocol[T]):
    """Captures and replays functions on one device.

    `T` is the library's tensor. Lists of arguments may contain numbers as well; a device reads only the
    tensors at the given positions.
    """

    def stream(self) -> Hashable | None:
        """Returns the current stream, or None if its work is already being captured."""

    def follow(self, before: Hashable) -> None:
        """Makes the current stream wait for the work queued on stream `before`."""

    def addresses(self, args: Sequence[T], positions: Sequence[int]) -> list[int | None]:
        """Returns one entry per argument: the address for those in `positions`, otherwise None."""

    def checker(self, args: Sequence[T], positions: Sequence[int]) -> Callable[[list[T]], bool]:
        """Returns a function that checks whether the arguments at `positions` have the addresses that they
        have in `args`."""

    def is_here(self, args: Sequence[T], positions: Sequence[int]) -> bool:
        """Returns whether all tensors at `positions` are on this device."""

    def buffer(self, arg: T) -> T | None:
        """Returns a tensor in memory of graphs with the layout of `arg`, or None if elements of `arg`
        overlap."""

    def copy(self, targets: list[T], sources: list[T]) -> None:
        """Copies tensors on the current stream."""

    def capture(self, run: Callable[[], Sequence[T]]) -> tuple[Callable[[], None], tuple[T, ...]]:
        """Captures the work of `run`. Returns a function that replays it, and the results of `run`.

        If `run` raises, the error passes through and the device's state is restored. Memory that `run`
        allocates is memory of graphs: once freed, later graphs may reuse it.
        """

    def warm_up(self, run: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """Executes `run` and returns its results.

        It allocates from separate memory, which the device frees before the next capture unless it is still
        referenced.
        """

    def memory(self) -> Sequence[Span]:
        """Returns all memory of graphs, in any order."""

    def spans(self, tensors: Sequence[T]) -> Sequence[Span]:
        """Returns the address range of each tensor's storage."""

    def release(self, tensor: T, args: Sequence[T]) -> list[T]:
        """Releases the storage of a buffer or of a result to the memory of graphs, once the last
        reference is gone.

        Returns tensors that replace `args`, which are in that storage. The storage ends with the last of them
        and their views. All other tensors remain at their addresses.
        """

    def storages(self, results: Sequence[T]) -> Sequence[object]:
        """Returns the storage of each result, as `holders` accepts them."""

    # Any: the device's own type of a storage, as `storages` returns it
    def holders(self, storages: Sequence[Any]) -> Sequence[int]:
        """Returns the number of references to each storage."""

    def giver(self, results: tuple[T, ...], owned: Set[int]) -> Callable[[], tuple[T, ...]]:
        """Returns a function that creates new tensors over the memory of the results after each replay.

        Results at positions in `owned` are copied. Copies share memory if the results do.
        """

    def wait(self) -> None:
        """Waits until the device has finished all work."""

    def is_exhausted(self, error: Exception) -> bool:
        """Returns whether an error means that the device is out of memory."""
