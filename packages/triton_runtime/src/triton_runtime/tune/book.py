"""The times of one device, wherever they come from: given, found in a store, brought by other processes, measured now."""

from __future__ import annotations

import enum
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.tune.record import Entry, Place, TuningRecord

__all__ = ["Book", "Gather", "Source", "Where"]

_LOG = logging.getLogger(__name__)

Gather = Callable[[str], Sequence[str]]
"""Gives a text to all processes that tune together, and returns theirs, in one order for all."""


@dataclass(frozen=True, slots=True)
class Where:
    """What times hold for besides a kernel: the name of a device's model, and Triton's version."""

    device: str
    compiler: str


class Source(enum.Enum):
    """Where an entry came from."""

    RECORD = "recorded"
    STORE = "stored"
    MEASURED = "measured"


class Book:
    """Gives the times of a place and keeps them in `record`: choices follow from that alone.

    With `gather`, all processes bring their times of a place together: what follows from them is the same in each, as
    long as all come to the same places in the same order.
    """

    def __init__(
        self, where: Where, *, record: TuningRecord | None = None, gather: Gather | None = None
    ) -> None:
        self.where = where
        self.record = record or TuningRecord()
        self.sources: Counter[Source] = Counter()
        """How many entries came from where."""
        self._gather = gather
        self._lock = threading.RLock()

    def place(self, kernel: str, numbers: Sequence[float] = ()) -> Place:
        """The place of a kernel (by its hash) and numbers of its launch, on this book's device."""
        plain = (int(n) if isinstance(n, bool) else n for n in numbers)
        return Place(kernel, self.where.device, self.where.compiler, tuple(plain))

    def entry(
        self,
        place: Place,
        fits: Callable[[Entry], bool],
        measure: Callable[[], Entry],
        store: ByteStore | None = None,
    ) -> tuple[Entry, Source]:
        """What is known of a place, and from where; what `fits` refuses counts as unknown.

        One thread at a time: measurements would disturb each other. Raises what `measure` raises, and TuningError TR603
        where other processes are at another place.
        """
        with self._lock:
            return self._entry(place, fits, measure, store)

    def _entry(
        self,
        place: Place,
        fits: Callable[[Entry], bool],
        measure: Callable[[], Entry],
        store: ByteStore | None,
    ) -> tuple[Entry, Source]:
        found, source = self.record.entries.get(place), Source.RECORD
        if found is None or not fits(found):
            found, source = self._stored(place, store), Source.STORE
        if found is None or not fits(found):
            found, source = measure(), Source.MEASURED
            if store is not None and any(found.times.values()):
                store.put(_key(place), TuningRecord({place: found}).to_json().encode())
        if self._gather is not None:
            found = _gathered(place, found, self._gather)
        self.record = TuningRecord({**self.record.entries, place: found})
        self.sources[source] += 1
        return found, source

    def _stored(self, place: Place, store: ByteStore | None) -> Entry | None:
        data = None if store is None else store.get(_key(place))
        if data is None:
            return None
        try:
            return TuningRecord.from_json(data.decode(errors="replace")).entries.get(place)
        except TuningError as error:
            _LOG.warning("a stored tuning record is not used: %s", error)
            return None


def _key(place: Place) -> str:
    return f"tuning\n{place.kernel}\n{place.device}\n{place.compiler}\n{place.numbers!r}"


def _gathered(place: Place, entry: Entry, gather: Gather) -> Entry:
    records = [TuningRecord.from_json(text) for text in gather(TuningRecord({place: entry}).to_json())]
    others = {p.kernel for record in records for p in record.entries} - {place.kernel}
    if others:
        raise TuningError(
            "TR603",
            f"processes tune kernels {sorted({place.kernel, *others})} together",
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
