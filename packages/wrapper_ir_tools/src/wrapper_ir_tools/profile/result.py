"""A profile as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """The cost of one op in a call, the median over all measured calls.

    `count` is the number of runs in a call, over which times and bytes are summed. `seconds` is host time,
    from the call of the kernel or operator until it returns. `device_seconds` is time on the device's stream;
    None on a CPU, and if the machine cannot measure it. `bytes` counts the tensors that are read and written,
    once a run. `share` is the achieved fraction of the device's copy bandwidth.
    """

    function: str
    op_index: int
    op: str
    name: str
    """The kernel or operator; '' for a copy."""
    device: str
    count: int
    seconds: float
    device_seconds: float | None
    bytes: int
    share: float | None
    source: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def time(self) -> float:
        """Seconds on the device that does the work."""
        return self.seconds if self.device_seconds is None else self.device_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One run of an op in the last call: an index into `Profile.ops`, its start and duration in seconds."""

    op: int
    begin: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile of a program.

    `seconds` is the time of a call in the interpreter, including its overhead. `limits` has the bytes per
    second of a large copy, by device. `spans` are in execution order.
    """

    version: int = 1
    calls: int
    seconds: float
    limits: Mapping[str, float]
    ops: tuple[OpTime, ...]
    spans: tuple[Span, ...]
