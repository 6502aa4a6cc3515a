"""The times of one device, from every source: given, found in a store, gathered from other processes, measured now."""

from __future__ import annotations

import enum
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.tune.record import Entry, TuningKey, TuningRecord

_LOG = logging.getLogger(__name__)

Gather = Callable[[str], Sequence[str]]
"""Gives a text to all processes that tune together, and returns theirs, in one order for all."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What times are valid for, apart from the kernel: the name of a device's model, and Triton's version."""

    model: str
    compiler: str


class Source(enum.Enum):
    """Where an entry came from."""

    RECORD = "recorded"
    STORE = "stored"
    MEASURED = "measured"


class TimingCache:
    """Gives the times of a key and keeps them in `record`: choices follow from that alone.

    With `gather`, all processes merge their times of a key: choices are the same in each, as long as all ask for the
    same keys in the same order.
    """

    def __init__(
        self, device: DeviceKey, *, record: TuningRecord | None = None, gather: Gather | None = None
    ) -> None:
        self.device = device
        self.record = record or TuningRecord()
        self.sources: Counter[Source] = Counter()
        """How many entries came from each source."""
        self._gather = gather
        self._lock = threading.RLock()

    def key(self, kernel: str, numbers: Sequence[float] = ()) -> TuningKey:
        """The key of a kernel (by its hash) and numbers of its launch, on this device."""
        plain = (int(n) if isinstance(n, bool) else n for n in numbers)
        return TuningKey(kernel, self.device.model, self.device.compiler, tuple(plain))

    def entry(
        self,
        key: TuningKey,
        fits: Callable[[Entry], bool],
        measure: Callable[[], Entry],
        store: ByteStore | None = None,
    ) -> tuple[Entry, Source]:
        """The times of a key, and their source; an entry that `fits` refuses counts as unknown.

        One thread at a time: measurements would disturb each other. Raises what `measure` raises, and TuningError TR603
        where other processes tune another kernel.
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
        found, source = self.record.entries.get(key), Source.RECORD
        if found is None or not fits(found):
            found, source = self._stored(key, store), Source.STORE
        if found is None or not fits(found):
            found, source = measure(), Source.MEASURED
            if store is not None and any(found.times.values()):
                store.put(_store_key(key), TuningRecord({key: found}).to_json().encode())
        if self._gather is not None:
            found = _gathered(key, found, self._gather)
        self.record = TuningRecord({**self.record.entries, key: found})
        self.sources[source] += 1
        return found, source

    def _stored(self, key: TuningKey, store: ByteStore | None) -> Entry | None:
        data = None if store is None else store.get(_store_key(key))
        if data is None:
            return None
        try:
            return TuningRecord.from_json(data.decode(errors="replace")).entries.get(key)
        except TuningError as error:
            _LOG.warning("a stored tuning record is not used: %s", error)
            return None


def _store_key(key: TuningKey) -> str:
    return f"tuning\n{key.kernel}\n{key.device}\n{key.compiler}\n{key.numbers!r}"


def _gathered(key: TuningKey, entry: Entry, gather: Gather) -> Entry:
    records = [TuningRecord.from_json(text) for text in gather(TuningRecord({key: entry}).to_json())]
    others = {p.kernel for record in records for p in record.entries} - {key.kernel}
    if others:
        raise TuningError(
            "TR603",
            f"processes tune kernels {sorted({key.kernel, *others})} together",
            hint="all processes have to launch the same kernels in the same order",
        )
    entries = sorted(
        (e for record in records for e in record.entries.values()),
        key=lambda e: (e.order, sorted(e.times.items())),
    )
    merged = entries[0]
    for other in entries[1:]:
        merged = merged.merged(other)
    return merged
