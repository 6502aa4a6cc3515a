"""Names the first op by which two runs differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.debugger.samples import Key, Sample
from wrapper_ir_tools.debugger.tolerances import Difference, Tolerance, compare_contents


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first value that differs, after the op that computed it in the first run."""

    first: Sample
    second: Sample
    difference: Difference
    missing: tuple[Sample, ...] = ()
    """What the first run had computed before and the second had not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`matched` values were computed by both runs and agree but for `mismatch`. `failure`: one run ended with this error, and
    `failed` says which (1 or 2)."""

    matched: int
    mismatch: Mismatch | None = None
    unmatched: tuple[int, int] = (0, 0)
    """How many values only the first, and only the second run computed."""
    failed: int = 0
    failure: Exception | None = None

    @property
    def agree(self) -> bool:
        """Whether nothing differs."""
        return self.mismatch is None and self.failure is None


class _Side:
    """One run: its next samples, and those that the other has not matched yet."""

    def __init__(self, samples: Iterator[Sample]) -> None:
        self._samples = samples
        self.waiting: dict[Key, Sample] = {}
        self.done = False
        self.failure: Exception | None = None

    def next(self) -> Sample | None:
        try:
            found = next(self._samples, None)
        except Exception as error:  # of the program: what it computed before is compared first
            self.failure = error
            found = None
        self.done = found is None
        return found


def compare_runs(
    first: Iterator[Sample], second: Iterator[Sample], given: Tolerance | None = None
) -> Comparison:
    """Runs both side by side until a value differs or both end. Values are matched by function, name, and how often
    they were computed before; those that one run does not have are passed over."""
    sides = (_Side(first), _Side(second))
    matched = 0
    while not all(side.done for side in sides):
        for number, side in enumerate(sides):
            sample = None if side.done else side.next()
            if sample is None:
                continue
            other = sides[1 - number].waiting.pop(sample.key, None)
            if other is None:
                side.waiting[sample.key] = sample
                continue
            matched += 1
            pair = (sample, other) if number == 0 else (other, sample)
            found = compare_contents(pair[0].content, pair[1].content, given)
            if found is not None:
                missing = tuple(s for s in sides[0].waiting.values() if _is_before(s, pair[0]))
                return Comparison(matched=matched, mismatch=Mismatch(*pair, found, missing))
    failed = next((n for n, side in enumerate(sides, 1) if side.failure is not None), 0)
    return Comparison(
        matched=matched,
        unmatched=(len(sides[0].waiting), len(sides[1].waiting)),
        failed=failed,
        failure=sides[failed - 1].failure if failed else None,
    )


def _is_before(sample: Sample, other: Sample) -> bool:
    return sample.function is other.function and sample.position < other.position


def compare_constants(first: Artifact, second: Artifact) -> tuple[str, ...]:
    """A line about each constant that both programs have and that holds other bytes in the second."""
    lines: list[str] = []
    others = {c.value.name: c for c in second.program.constants}
    for constant in first.program.constants:
        other = others.get(constant.value.name)
        if other is None:
            continue
        data, more = first.data_of(constant), second.data_of(other)
        if constant.value.type != other.value.type:
            lines.append(f"constant %{constant.value.name}: {constant.value.type} against {other.value.type}")
        elif data is not None and more is not None and data.buffer.cast("B") != more.buffer.cast("B"):
            lines.append(f"constant %{constant.value.name} holds other bytes")
    return tuple(lines)
