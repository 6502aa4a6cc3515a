"""What `wir profile` asks of a machine for times of a device."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from wrapper_ir.ir.types import Device


@runtime_checkable
class TimingMachine(Protocol):
    """What a `Machine` offers besides where it can tell when a device does its work. `wir profile` asks for it."""

    # Any: the library's own object
    def mark(self, device: Device) -> Any:
        """A place in the work that is queued on the device's current stream."""

    def seconds_between(self, begin: Any, end: Any) -> float:
        """The time from one place to a later one; waits until the later one is reached."""
