"""A profile as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """One op of the program: what it costs in a call, the median over all measured calls.

    `count`: how often it runs in a call, with which times and bytes are summed. `seconds`: of the host, from where the kernel or
    operator is called until it returns. `device_seconds`: of the device's stream; None on a CPU, and where the machine cannot measure
    it. `bytes`: of the tensors that are read and written, each once a run. `share`: bytes by time, of the device's limit for copies.
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
        """Seconds where the work is done."""
        return self.seconds if self.device_seconds is None else self.device_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One run of an op in the last call: an index into `Profile.ops`, its beginning and its length in seconds."""

    op: int
    begin: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """`seconds`: a call in the interpreter, its own work included; `limits`: bytes a second that a large copy moves, by device; `spans`
    are in order of the call."""

    version: int = 1
    calls: int
    seconds: float
    limits: Mapping[str, float]
    ops: tuple[OpTime, ...]
    spans: tuple[Span, ...]
