"""What a kernel runtime offers besides where it can launch again what operators of a tensor library have launched."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from wrapper_ir import ir


class OperatorRepeater(Protocol):
    """Launches again, on one device, what operators of a tensor library have launched before."""

    def new_stream(self) -> int:
        """A raw stream that nobody else has. Raises OSError."""

    def repeated(
        self, operator: Repeatable, record: Callable[..., object | None], calls: int
    ) -> RepeatedOperator:
        """What calls an operator or launches its kernels again. A call with the same numbers and layouts, addresses, stream and settings
        as two before launches what the second one did; others, and all while a watcher gives something true, are the operator's. The
        second one is `record`'s, which gives what lies between `begin` and `end`, or None. Of an operator that makes its results it calls the
        operator, too, and gives two things: what `movable` gives, or None, and these results. Made for a program with so many `calls`."""


@dataclass(frozen=True, slots=True)
class Repeatable:
    """An operator whose launches follow from its arguments and from `settings`. It writes its last argument and gives it back, unless it
    makes its results. `watchers` say whether somebody else has to see that it is called. Any: the operator's own arguments."""

    name: str
    function: Callable[..., Any]
    settings: tuple[Callable[[], Hashable], ...]
    watchers: tuple[Callable[[], object], ...]
    makes_results: bool = False


class RepeatedOperator(Protocol):
    """An operator, and what it takes to see what it launches."""

    # Any: the operator's own arguments
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call."""

    def begin(self, stream: int) -> None:
        """Records what is queued on a raw stream from now on."""

    def end(self, stream: int) -> object | None:
        """What was queued since then; None where that cannot be repeated."""

    def movable(
        self,
        first: object,
        second: object,
        results: tuple[tuple[int, int, int], ...],
        kept: tuple[tuple[int, int], ...],
        others: tuple[tuple[int, int], ...],
        make: Callable[[], tuple[Any, ...]],
    ) -> object | None:
        """`second`, for results that lie elsewhere in each call. Two recordings of one call were made with results at other addresses:
        `results` has for each storage where it began in `first`, its bytes, and where it began in `second`. The two may differ by
        these addresses, by addresses in `kept`, memory that stays for such kernels (begin, bytes), and by what nobody has set; None where
        they may differ by more: addresses in `others`, or how far results lie apart. `make` gives a tuple: the operator's
        results, then a tensor at the begin of each storage. Raises ValueError for more than 256 pieces of memory."""


@runtime_checkable
class RepeatingRuntime(Protocol):
    """What a `KernelRuntime` offers besides where it can launch what operators of a tensor library launched."""

    def operator_repeater(self, device: ir.Device) -> OperatorRepeater | None:
        """What does so on a device; None where the runtime cannot."""
