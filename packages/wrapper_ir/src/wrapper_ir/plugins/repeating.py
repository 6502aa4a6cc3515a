"""Optional runtime capability: replay the kernel launches of a library's operators."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from wrapper_ir import ir


class OperatorRepeater(Protocol):
    """Replays, on one device, the launches of a tensor library's operators."""

    def new_stream(self) -> int:
        """Creates a raw stream for exclusive use. Raises OSError."""

    def repeated(
        self, operator: Repeatable, record: Callable[..., object | None], calls: int
    ) -> RepeatedOperator:
        """Returns a callable that calls or replays an operator, for a program with this many `calls`.

        A call with the same numbers, layouts, addresses, stream and settings as two earlier ones replays the
        launches of the second. All others call the operator, and so does every call while a watcher returns
        something true. `record` runs the second call and returns the work between `begin` and `end`, or None.
        For an operator that allocates its results, `record` also calls the operator, and returns the result
        of `movable` (or None) with these results.
        """


@dataclass(frozen=True, slots=True)
class Repeatable:
    """An operator whose launches depend only on its arguments and on `settings`.

    It writes and returns its last argument, unless it allocates its results (`makes_results`). `watchers`
    tell whether another observer (such as a profiler) must see the calls.
    """

    name: str
    function: Callable[..., Any]  # Any: the operator's results
    settings: tuple[Callable[[], Hashable], ...]
    watchers: tuple[Callable[[], object], ...]
    makes_results: bool = False


class RepeatedOperator(Protocol):
    """An operator whose launches can be recorded and replayed."""

    # Any: the operator's arguments and results
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator or replays its launches."""

    def begin(self, stream: int) -> None:
        """Starts to record the work queued on a raw stream."""

    def end(self, stream: int) -> object | None:
        """Stops recording; returns the recorded work, or None if it cannot be replayed."""

    def movable(
        self,
        first: object,
        second: object,
        results: tuple[tuple[int, int, int], ...],
        kept: tuple[tuple[int, int], ...],
        others: tuple[tuple[int, int], ...],
        make: Callable[[], tuple[object, ...]],
    ) -> object | None:
        """Returns the recording `second` for results at other addresses in each call, or None.

        `first` and `second` record the same call with results at different addresses. `results` has for each
        storage its address in `first`, its size in bytes, and its address in `second`. The recordings may
        differ in these addresses, in addresses of `kept` (address, bytes), memory reserved for such kernels,
        and in uninitialized bytes. None is returned if they may differ otherwise: in addresses of `others`,
        or in distances between results. `make` returns the operator's results, followed by a tensor at the
        start of each storage.

        Raises ValueError for more than 256 pieces of memory.
        """


@runtime_checkable
class RepeatingRuntime(Protocol):
    """Optional runtime capability: replay the launches of a tensor library's operators."""

    def operator_repeater(self, device: ir.Device) -> OperatorRepeater | None:
        """Returns the repeater of a device; None if unsupported."""
