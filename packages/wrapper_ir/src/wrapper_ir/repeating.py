"""What a kernel runtime offers besides where it can launch again what operators of a tensor library have launched."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, runtime_checkable

from wrapper_ir.types import Device

__all__ = ["OperatorRepeater", "RepeatedOperator", "RepeatingRuntime"]


class OperatorRepeater(Protocol):
    """Launches again, on one device, what operators of a tensor library have launched before."""

    def new_stream(self) -> int:
        """A raw stream that nobody else has. Raises OSError."""

    # Any: the operator, and its own arguments
    def repeated(
        self,
        name: str,
        operator: Callable[..., Any],
        settings: tuple[Callable[[], Hashable], ...],
        watchers: tuple[Callable[[], object], ...],
        record: Callable[..., object | None],
        calls: int,
    ) -> RepeatedOperator:
        """The operator `name`, whose last argument is its result. A call with the same numbers and layouts, addresses, stream and
        `settings` as two before launches what the second one did; others, and all
        while one of `watchers` gives something true, are `operator`'s. The second one is `record`'s, which
        gives what lies between `begin` and `end`. Made for a program with so many `calls`."""


class RepeatedOperator(Protocol):
    """An operator, and what it takes to see what it launches."""

    # Any: the operator's own arguments
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One call."""

    def begin(self, stream: int) -> None:
        """Records what is queued on a raw stream from now on."""

    def end(self, stream: int) -> object | None:
        """What was queued since then; None where that cannot be repeated."""


@runtime_checkable
class RepeatingRuntime(Protocol):
    """What a `KernelRuntime` offers besides where it can launch what operators of a tensor library launched."""

    def operator_repeater(self, device: Device) -> OperatorRepeater | None:
        """What does so on a device; None where the runtime cannot."""
