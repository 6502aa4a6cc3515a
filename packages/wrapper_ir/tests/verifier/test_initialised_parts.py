"""Initialized parts of a storage: disjoint and in order, with the answers of a list of all windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir.verifier.checks.initialised import _add, _overlap

Window = tuple[int, int]
WINDOWS = st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda w: (w[0], w[0] + w[1]))


@given(st.lists(WINDOWS, max_size=12), WINDOWS.filter(lambda window: window[0] < window[1]))
def test_parts_answer_as_all_windows_do(windows: list[Window], read: Window) -> None:
    parts: list[Window] = []
    for window in windows:
        _add(parts, window)
    assert _overlap(parts, read) == any(low < read[1] and read[0] < high for low, high in windows)
    ends = [end for part in parts for end in part]
    assert ends == sorted(ends)


def test_windows_that_touch_are_one_part() -> None:
    parts: list[Window] = []
    for window in ((8, 16), (0, 4), (20, 24), (4, 8)):
        _add(parts, window)
    assert parts == [(0, 16), (20, 24)]
