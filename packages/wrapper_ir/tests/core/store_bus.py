"""Stores of process groups whose processes are threads: one table, with a count of its uses."""

from __future__ import annotations

import threading
from collections import defaultdict


class Bus:
    """Entries of the processes of a group; readers wait at most `patience` seconds."""

    def __init__(self, size: int, patience: float = 5.0) -> None:
        self.size, self.patience = size, patience
        self.table: dict[str, bytes] = {}
        self.counters: dict[str, int] = {}
        self.used = 0
        self.lock = threading.Lock()
        self.written: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def store(self, rank: int) -> BusStore:
        """Returns the store of the process of this rank."""
        return BusStore(self, rank)


class BusStore:
    """See `wrapper_ir_runtime.GroupStore`."""

    def __init__(self, bus: Bus, rank: int) -> None:
        self.bus, self.rank, self.size = bus, rank, bus.size

    def add(self, key: str, amount: int) -> int:
        """See `GroupStore`."""
        with self.bus.lock:
            self.bus.used += 1
            self.bus.counters[key] = self.bus.counters.get(key, 0) + amount
            return self.bus.counters[key]

    def set(self, key: str, value: bytes) -> None:
        """See `GroupStore`."""
        with self.bus.lock:
            self.bus.used += 1
            self.bus.table[key] = value
            self.bus.written[key].set()

    def has(self, key: str) -> bool:
        """See `GroupStore`."""
        with self.bus.lock:
            self.bus.used += 1
            return key in self.bus.table

    def get(self, key: str) -> bytes:
        """See `GroupStore`."""
        with self.bus.lock:
            self.bus.used += 1
            entries = self.bus.written[key]
        if not entries.wait(self.bus.patience):
            raise TimeoutError(key)
        return self.bus.table[key]
