"""The protocol of machines that measure times on a device, for `wir profile`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from wrapper_ir import ir


@runtime_checkable
class TimingMachine(Protocol):
    """Optional machine capability: measure the time of a device's work."""

    # Any: the library's own object
    def mark(self, device: ir.Device) -> Any:
        """A point in the work that is queued on the device's current stream."""

    def seconds_between(self, begin: Any, end: Any) -> float:
        """Seconds from one point to a later one; waits until the later one is reached."""
