"""The times of one device from every source: options, a store, other processes, and measurements."""

from __future__ import annotations

import enum
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.tune.measurements import Entry, Measurements, TuningKey

_LOG = logging.getLogger(__name__)

Gather = Callable[[str], Sequence[str]]
"""Sends a text to all processes that tune together, and returns theirs, in the same order for all."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """The validity of times, apart from the kernel: the name of a device's model, and Triton's version."""

    model: str
    compiler: str


class Source(enum.Enum):
    """The source of an entry."""

    STORED = "recorded"
    STORE = "stored"
    MEASURED = "measured"


class TimingCache:
    """Returns the times of a key and stores them in `measurements`: choices follow from that alone.

    With `gather`, all processes merge their times of a key. Choices are then equal in each, if all request
    the same keys in the same order.
    """

    def __init__(
        self, device: DeviceKey, *, measurements: Measurements | None = None, gather: Gather | None = None
    ) -> None:
        self.device = device
        self.measurements = measurements or Measurements()
        self.sources: Counter[Source] = Counter()
        """The number of entries from each source."""
        self._gather = gather
        self._lock = threading.RLock()

    def key(self, kernel: str, numbers: Sequence[float] = ()) -> TuningKey:
        """The key of a kernel (by its hash) and the numbers of its launch on this device."""
        plain = (int(n) if isinstance(n, bool) else n for n in numbers)
        return TuningKey(kernel, self.device.model, self.device.compiler, tuple(plain))

    def entry(
        self,
        key: TuningKey,
        fits: Callable[[Entry], bool],
        measure: Callable[[], Entry],
        store: ByteStore | None = None,
    ) -> tuple[Entry, Source]:
        """Returns the times of a key and their source; an entry that `fits` rejects counts as unknown.

        One thread at a time: measurements would disturb each other. Raises errors of `measure`, and
        TuningError TR603 if other processes tune another kernel.
        """
        with self._lock:
            return self._entry(key, fits, measure, store)

    def _entry(
        self,
        key: TuningKey,
        fits: Callable[[Entry], bool],
        measure: Callable[[], Entry],
        store: ByteStore | None,
    ) -> tuple[Entry, Source]:
        result, source = self.measurements.entries.get(key), Source.STORED
        if result is None or not fits(result):
            result, source = self._stored(key, store), Source.STORE
        if result is None or not fits(result):
            result, source = measure(), Source.MEASURED
            if store is not None and any(result.times.values()):
                store.put(_store_key(key), Measurements({key: result}).to_json().encode())
        if self._gather is not None:
            result = _gathered(key, result, self._gather)
        self.measurements = Measurements({**self.measurements.entries, key: result})
        self.sources[source] += 1
        return result, source

    def _stored(self, key: TuningKey, store: ByteStore | None) -> Entry | None:
        data = None if store is None else store.get(_store_key(key))
        if data is None:
            return None
        try:
            return Measurements.from_json(data.decode(errors="replace")).entries.get(key)
        except TuningError as error:
            _LOG.warning("stored tuning measurements are not used: %s", error)
            return None


def _store_key(key: TuningKey) -> str:
    return f"tuning\n{key.kernel}\n{key.device}\n{key.compiler}\n{key.numbers!r}"


def _gathered(key: TuningKey, entry: Entry, gather: Gather) -> Entry:
    records = [Measurements.from_json(text) for text in gather(Measurements({key: entry}).to_json())]
    others = {p.kernel for measurements in records for p in measurements.entries} - {key.kernel}
    if others:
        raise TuningError(
            "TR603",
            f"processes tune kernels {sorted({key.kernel, *others})} together",
            hint="all processes must launch the same kernels in the same order",
        )
    entries = sorted(
        (e for measurements in records for e in measurements.entries.values()),
        key=lambda e: (e.order, sorted(e.times.items())),
    )
    merged = entries[0]
    for other in entries[1:]:
        merged = merged.merged(other)
    return merged
