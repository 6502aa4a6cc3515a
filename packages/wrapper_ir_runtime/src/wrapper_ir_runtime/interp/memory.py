"""Memory statistics of a run."""

from __future__ import annotations

from wrapper_ir_runtime.interp.options import MemoryReport


class MemoryMeter:
    """Live bytes by storage key. A key may be reused after its storage has ended."""

    def __init__(self) -> None:
        self._live: dict[int, int] = {}
        self._bytes = self._peak = self._total = self._count = 0

    def born(self, key: int, nbytes: int) -> None:
        """Counts a new storage; one that is live already is counted once."""
        if key in self._live:
            return
        self._live[key] = nbytes
        self._count += 1
        self._total += nbytes
        self._bytes += nbytes
        self._peak = max(self._peak, self._bytes)

    def ended(self, key: int) -> None:
        """Counts the end of a storage; storages that the run did not create are ignored."""
        self._bytes -= self._live.pop(key, 0)

    def report(self) -> MemoryReport:
        """Returns the counts so far."""
        return MemoryReport(
            storages=self._count, total_bytes=self._total, peak_bytes=self._peak, live_bytes=self._bytes
        )
