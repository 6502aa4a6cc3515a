"""Tuning measurements: all measured times, from which every choice can be reproduced and merged."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from triton_runtime.errors import TuningError
from triton_runtime.tune.decide import NOISE, Decision, decide
from triton_runtime.tune.distance import distance
from wrapper_ir.artifact import Artifact

_FORMAT = "triton-tuning"
_VERSION = 1
_ARTIFACT_KEY = "triton"
"""The key of the measurements in `Artifact.tuning`."""
_NANO = 1e-9


@dataclass(frozen=True, slots=True, order=True)
class TuningKey:
    """The subject of a measurement.

    It has a kernel (its content hash), a device (its model's name), a compiler, and the numbers of the launch
    (scalar arguments and numbers of the grid).
    """

    kernel: str
    device: str
    compiler: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Times of one key: `order` has all candidates in the kernel's order; `times` are in integer nanoseconds.

    `failed` has the reasons of candidates without times.
    """

    order: tuple[str, ...]
    times: Mapping[str, tuple[int, ...]]
    failed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def of_seconds(
        order: Sequence[str], times: Mapping[str, Sequence[float]], failed: Mapping[str, str]
    ) -> Entry:
        """An entry from timers' seconds."""
        whole = {key: tuple(round(t / _NANO) for t in values) for key, values in times.items()}
        return Entry(order=tuple(order), times=whole, failed=failed)

    def decision(self, noise: float = NOISE) -> Decision:
        """The choice; raises ValueError without times."""
        seconds = {key: [t * _NANO for t in values] for key, values in self.times.items()}
        return decide(seconds, self.order, noise=noise)

    def merged(self, other: Entry) -> Entry:
        """Merges the times of both; symmetric in its operands."""
        order = tuple(dict.fromkeys((*min(self.order, other.order), *max(self.order, other.order))))
        times = {
            key: tuple(sorted((*self.times.get(key, ()), *other.times.get(key, ()))))
            for key in sorted({*self.times, *other.times})
        }
        failed = {
            key: max(self.failed.get(key, ""), other.failed.get(key, ""))
            for key in {*self.failed, *other.failed}
        }
        return Entry(
            order=order, times=times, failed={k: failed[k] for k in sorted(failed) if not times.get(k)}
        )


@dataclass(frozen=True, slots=True)
class Measurements:
    """Entries by key. Records are immutable; merging is commutative."""

    entries: Mapping[TuningKey, Entry] = field(default_factory=lambda: MappingProxyType({}))

    def find(self, key: TuningKey) -> Entry | None:
        """The entry of a key, or of the nearest numbers for the same kernel and device.

        The distance is the sum of differences of logarithms (ties: the smaller numbers).
        """
        entry = self.entries.get(key)
        if entry is not None:
            return entry
        same = [
            p
            for p in self.entries
            if (p.kernel, p.device, p.compiler, len(p.numbers))
            == (key.kernel, key.device, key.compiler, len(key.numbers))
        ]
        nearest = min(
            same, key=lambda p: (distance(zip(p.numbers, key.numbers, strict=True)), p.numbers), default=None
        )
        return None if nearest is None else self.entries[nearest]

    def merged(self, *others: Measurements) -> Measurements:
        """Merges two sets of measurements."""
        entries = dict(self.entries)
        for other in others:
            for key, entry in other.entries.items():
                entries[key] = entries[key].merged(entry) if key in entries else entry
        return Measurements({key: entries[key] for key in sorted(entries)})

    def to_json(self) -> str:
        """Canonical JSON text."""
        entries = [
            {
                "kernel": key.kernel,
                "device": key.device,
                "compiler": key.compiler,
                "numbers": list(key.numbers),
                "order": list(entry.order),
                "times": {candidate: list(values) for candidate, values in entry.times.items()},
                "failed": dict(entry.failed),
            }
            for key, entry in sorted(self.entries.items(), key=lambda item: item[0])
        ]
        return json.dumps({"format": _FORMAT, "version": _VERSION, "entries": entries}, sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Measurements:
        """Parses measurements; raises TuningError TR601 for any other text."""
        try:
            document = json.loads(text)
            if (document["format"], document["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"it is of format {document['format']} {document['version']}")
            return Measurements(dict(map(_read_entry, document["entries"])))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise TuningError(
                "TR601", f"these are not tuning measurements: {error}", hint="tune again"
            ) from error


def _read_entry(fields: Mapping[str, Any]) -> tuple[TuningKey, Entry]:  # Any: JSON, checked here
    times = {key: _nanoseconds(values) for key, values in fields["times"].items()}
    texts = (
        fields["kernel"],
        fields["device"],
        fields["compiler"],
        *fields["order"],
        *times,
        *fields["failed"].values(),
    )
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("names are texts")
    key = TuningKey(
        fields["kernel"], fields["device"], fields["compiler"], tuple(map(_number, fields["numbers"]))
    )
    if not {*times} <= {*fields["order"]}:
        raise ValueError("times of candidates that there are not")
    return key, Entry(order=tuple(fields["order"]), times=times, failed=dict(fields["failed"]))


def _number(x: object) -> float:
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        raise ValueError(f"{x!r} is not a number of a launch")
    return x


def _nanoseconds(values: Iterable[object]) -> tuple[int, ...]:
    numbers = tuple(values)
    if not all(type(v) is int and v >= 0 for v in numbers):
        raise ValueError("times are whole nanoseconds")
    return tuple(v for v in numbers if isinstance(v, int))


# --- measurements in artifacts


def with_measurements(artifact: Artifact, measurements: Measurements) -> Artifact:
    """Replaces the measurements of an artifact."""
    return dataclasses.replace(artifact, tuning={**artifact.tuning, _ARTIFACT_KEY: measurements.to_json()})


def measurements_of(artifact: Artifact) -> Measurements:
    """The measurements in an artifact, empty if it has none. Raises TuningError TR601."""
    text = artifact.tuning.get(_ARTIFACT_KEY)
    return Measurements() if text is None else Measurements.from_json(text)
