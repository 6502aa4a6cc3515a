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
    """Values that the first run had computed by then and the second had not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing two runs.

    `matched` values were computed by both runs and agree, except for `mismatch`. `failure` is the error that
    ended one run, and `failed` is the number of that run (1 or 2).
    """

    matched: int
    mismatch: Mismatch | None = None
    unmatched: tuple[int, int] = (0, 0)
    """Number of values that only the first run and only the second run computed."""
    failed: int = 0
    failure: Exception | None = None

    @property
    def agree(self) -> bool:
        """True if no value differs and neither run failed."""
        return self.mismatch is None and self.failure is None


class _Side:
    """One run: its remaining samples, and those that the other run has not matched yet."""

    def __init__(self, samples: Iterator[Sample]) -> None:
        self._samples = samples
        self.waiting: dict[Key, Sample] = {}
        self.done = False
        self.failure: Exception | None = None

    def next(self) -> Sample | None:
        try:
            sample = next(self._samples, None)
        # raised by the program: compare its earlier values first
        except Exception as error:
            self.failure = error
            sample = None
        self.done = sample is None
        return sample


def compare_runs(
    first: Iterator[Sample], second: Iterator[Sample], tolerance: Tolerance | None = None
) -> Comparison:
    """Runs both side by side until a value differs or both end.

    Values are matched by function, name, and the number of earlier computations. Values that only one run has
    are skipped.
    """
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
            difference = compare_contents(pair[0].content, pair[1].content, tolerance)
            if difference is not None:
                missing = tuple(s for s in sides[0].waiting.values() if _is_before(s, pair[0]))
                return Comparison(matched=matched, mismatch=Mismatch(*pair, difference, missing))
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
    """One line for each constant that both programs have, with different contents."""
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
            lines.append(f"constant %{constant.value.name} has other contents")
    return tuple(lines)
