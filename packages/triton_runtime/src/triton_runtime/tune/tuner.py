"""Chooses the config of a kernel by measuring, once for a device and the numbers of a launch."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.tune.arguments import Preserved
from triton_runtime.tune.candidates import config_key, config_of, neighbours, with_config
from triton_runtime.tune.measure import MeasureOptions, Timer, attempt, measure, reason
from triton_runtime.tune.record import ARTIFACT_KEY, Entry, Place, TuningRecord
from wrapper_ir.artifact import Artifact
from wrapper_ir.kernels import Derivation, TritonConfig, TritonKernel, content_hash
from wrapper_ir.protocols import LoadedKernel

__all__ = ["Gather", "LoadEach", "TuneOptions", "Tuner", "Where", "record_of", "with_record"]

_LOG = logging.getLogger(__name__)
# Any in this file: arguments of launches, tensors and numbers.

LoadEach = Callable[[Sequence[TritonKernel]], Sequence[LoadedKernel | Exception]]
"""Compiles and loads kernels that have one config each, in parallel where that helps: the kernel, or why not."""

Gather = Callable[[str], Sequence[str]]
"""Gives a text to all processes that tune together, and returns theirs, in one order for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """`noise`: relative differences below it decide nothing. `budget`: bytes of the device for copies of arguments.
    `descent`: coordinate descent from the best listed config, for kernels that allow it, in at most `steps` steps."""

    measure: MeasureOptions = field(default_factory=MeasureOptions)
    noise: float = 0.01
    budget: int = 1 << 30
    descent: bool = False
    steps: int = 16


@dataclass(frozen=True, slots=True)
class Where:
    """What times hold for besides a kernel: the name of a device's model, and Triton's version."""

    device: str
    compiler: str


class Tuner:
    """Chooses configs on one device.

    Choices follow from `record` alone, which holds what
    was measured here, found in `store`, or given. With `gather`, all processes bring their times together before they
    choose: they choose the same, and all have to come to the same kernels in the same order.
    """

    def __init__(
        self,
        load_each: LoadEach,
        timer: Timer,
        where: Where,
        *,
        store: ByteStore | None = None,
        gather: Gather | None = None,
        record: TuningRecord | None = None,
        options: TuneOptions | None = None,
    ) -> None:
        self.options = options or TuneOptions()
        self.record = record or TuningRecord()
        self._load_each, self._timer = load_each, timer
        self.where = where
        self._store, self._gather = store, gather
        self._chosen: dict[Place, TritonConfig] = {}

    def place(self, kernel: TritonKernel, args: Sequence[Any]) -> Place:
        """What is tuned: the kernel with the numbers among these arguments (and those of the grid, behind them)."""
        numbers = tuple(a for a in args if isinstance(a, int | float))
        return Place(content_hash(kernel), self.where.device, self.where.compiler, numbers)

    def choose(self, kernel: TritonKernel, args: Sequence[Any]) -> TritonConfig:
        """The config to launch the kernel with, on these arguments: measured now, unless the record or the store know.

        Tensors are afterwards as they were, but for those that the kernel only writes. Raises TuningError TR602 where no
        candidate runs, with every reason; TR603.
        """
        if len(kernel.configs) == 1 and not self._descends(kernel):
            return kernel.configs[0]
        place = self.place(kernel, args)
        if place not in self._chosen:
            entry = self.record.entries.get(place) or self._stored(place) or self._tune(kernel, args, place)
            if self._gather is not None:
                entry = self._gathered(place, entry)
            self.record = TuningRecord({**self.record.entries, place: entry})
            self._chosen[place] = self._config(kernel, entry)
        return self._chosen[place]

    def replay(self, kernel: TritonKernel, args: Sequence[Any]) -> TritonConfig:
        """The choice that the record leads to, for these numbers or the nearest ones; the first config where it knows
        nothing of the kernel. Measures nothing."""
        entry = self.record.find(self.place(kernel, args))
        return kernel.configs[0] if entry is None or not entry.times else self._config(kernel, entry)

    # --- choosing

    def _config(self, kernel: TritonKernel, entry: Entry) -> TritonConfig:
        if not any(entry.times.values()):
            reasons = "".join(f"\n  {key}: {why}" for key, why in entry.failed.items())
            raise TuningError("TR602", f"no config of @{kernel.name} runs:{reasons}")
        decision = entry.decision(self.options.noise)
        found = config_of(kernel, decision.winner)
        if found is None:
            raise TuningError(
                "TR601",
                f"the record has a config that @{kernel.name} does not: {decision.winner}",
                hint="tune again",
            )
        _LOG.info(
            "@%s: %s of %d configs%s; medians in us: %s",
            kernel.name,
            decision.winner,
            len(entry.order),
            f" ({len(decision.tied)} equal ones)" if decision.inside_noise else "",
            {key: round(seconds * 1e6, 2) for key, seconds in decision.medians.items()},
        )
        return found

    def _stored(self, place: Place) -> Entry | None:
        data = None if self._store is None else self._store.get(_store_key(place))
        if data is None:
            return None
        try:
            return TuningRecord.from_json(data.decode(errors="replace")).entries.get(place)
        except TuningError as error:
            _LOG.warning("a stored tuning record is not used: %s", error)
            return None

    def _gathered(self, place: Place, entry: Entry) -> Entry:
        assert self._gather is not None
        texts = self._gather(TuningRecord({place: entry}).to_json())
        records = [TuningRecord.from_json(text) for text in texts]
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

    # --- measuring

    def _descends(self, kernel: TritonKernel) -> bool:
        return self.options.descent and Derivation.COORDINATE_DESCENT in kernel.derive

    def _tune(self, kernel: TritonKernel, args: Sequence[Any], place: Place) -> Entry:
        with Preserved(kernel.params, args, self.options.budget, kernel.restore, kernel.reset) as preserved:
            entry = self._measured(kernel, kernel.configs, args, preserved)
            if self._descends(kernel) and any(entry.times.values()):
                entry = self._descended(kernel, entry, args, preserved)
        if self._store is not None and any(entry.times.values()):
            self._store.put(_store_key(place), TuningRecord({place: entry}).to_json().encode())
        return entry

    def _measured(
        self, kernel: TritonKernel, configs: Sequence[TritonConfig], args: Sequence[Any], preserved: Preserved
    ) -> Entry:
        keys = tuple(map(config_key, configs))
        loaded = self._load_each([with_config(kernel, config) for config in configs])
        runs = {k: _bind(f, args) for k, f in zip(keys, loaded, strict=True) if not isinstance(f, Exception)}
        failed = {k: reason(f) for k, f in zip(keys, loaded, strict=True) if isinstance(f, Exception)}
        able, refused = attempt(runs, preserved.ready)
        times = measure(able, self._timer, self.options.measure, before=preserved.ready)
        failed |= refused
        whole = {key: tuple(round(t * 1e9) for t in values) for key, values in times.items()}
        return Entry(order=keys, times=whole, failed=failed)

    def _descended(
        self, kernel: TritonKernel, entry: Entry, args: Sequence[Any], preserved: Preserved
    ) -> Entry:
        """Goes from the best config to its best neighbour, as long as that is faster by more than noise."""
        for _ in range(self.options.steps):
            best = self._config(kernel, entry)
            new = [c for c in neighbours(best) if config_key(c) not in entry.order]
            if not new:
                break
            found = self._measured(kernel, (best, *new), args, preserved)
            entry = _joined(entry, found)
            if self._config(kernel, entry) == best:
                break
        return entry


def _bind(kernel: LoadedKernel, args: Sequence[Any]) -> Callable[[], object]:
    return lambda: kernel(*args)


def _joined(entry: Entry, found: Entry) -> Entry:
    """Listed candidates stay in front."""
    merged = entry.merged(found)
    return dataclasses.replace(merged, order=tuple(dict.fromkeys((*entry.order, *found.order))))


def _store_key(place: Place) -> str:
    return f"tuning\n{place.kernel}\n{place.device}\n{place.compiler}\n{place.numbers!r}"


# --- records in artifacts


def with_record(artifact: Artifact, record: TuningRecord) -> Artifact:
    """The artifact with this record, instead of what it had."""
    return dataclasses.replace(artifact, tuning={**artifact.tuning, ARTIFACT_KEY: record.to_json()})


def record_of(artifact: Artifact) -> TuningRecord:
    """The record in an artifact; an empty one where there is none. Raises TuningError TR601."""
    text = artifact.tuning.get(ARTIFACT_KEY)
    return TuningRecord() if text is None else TuningRecord.from_json(text)
