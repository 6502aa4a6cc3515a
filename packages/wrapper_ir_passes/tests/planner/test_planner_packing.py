"""Placements: no two buffers share bytes at one time, none is below the bound, and tables round-trip."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.placing_instances import CAPACITY, challenge, generated
from wrapper_ir.errors import PassError
from wrapper_ir_passes.planner import (
    PACKERS,
    Algorithm,
    Buffer,
    Placement,
    SearchBudget,
    check_placement,
    exact,
    height,
    live_bytes,
    pack,
    peak_bytes,
    read_csv,
    write_csv,
)


@st.composite
def buffer_lists(draw: st.DrawFn, most: int = 20) -> list[Buffer]:
    """Buffers of a program of some 12 ops."""
    results = []
    for number in range(draw(st.integers(0, most))):
        begin = draw(st.integers(0, 11))
        end = draw(st.integers(begin + 1, 12))
        size, alignment = draw(st.integers(0, 40)), draw(st.sampled_from((1, 4, 16)))
        results.append(Buffer(f"b{number}", begin, end, size, alignment))
    return results


@pytest.mark.slow
@given(buffer_lists())
def test_every_placement_holds(buffers: list[Buffer]) -> None:
    for algorithm in Algorithm:
        places = pack(buffers, algorithm)
        check_placement(buffers, places)
        assert height(buffers, places) >= peak_bytes(buffers)


@pytest.mark.slow
@given(buffer_lists())
def test_best_is_no_worse_than_each(buffers: list[Buffer]) -> None:
    best = height(buffers, pack(buffers))
    assert best <= min(height(buffers, packer(buffers)) for packer in PACKERS.values())


def _lowest_of_all(buffers: Sequence[Buffer], placed: dict[str, int], highest: int) -> int:
    """Returns the least height, by exhaustive search below `highest`."""
    if len(placed) == len(buffers):
        return height(buffers, placed)
    b = buffers[len(placed)]
    best = highest
    for offset in range(0, highest - b.size, b.alignment):
        inside = {**placed, b.name: offset}
        try:
            check_placement(buffers[: len(inside)], inside)
        except PassError:
            continue
        best = min(best, _lowest_of_all(buffers, inside, best))
    return best


@given(buffer_lists(most=4))
def test_the_search_finds_the_lowest(buffers: list[Buffer]) -> None:
    small = [Buffer(b.name, b.begin, b.end, b.size % 6, min(b.alignment, 4)) for b in buffers]
    places, optimal, _ = exact(small, PACKERS[Algorithm.BEST_FIT](small), 100_000)
    check_placement(small, places)
    assert optimal
    assert height(small, places) == _lowest_of_all(small, {}, height(small, places) + 1)


TRAP = [
    Buffer("a", 4, 5, 3),
    Buffer("b", 0, 3, 4),
    Buffer("c", 2, 5, 4),
    Buffer("d", 0, 2, 1),
    Buffer("e", 3, 5, 2),
    Buffer("f", 1, 3, 1),
]
"""`d` and `f` must be disjoint for `a`, `c` and `e` to fill 9 bytes at the end; greedy placements take 10."""


def test_the_search_beats_greedy_placements() -> None:
    greedy = min(height(TRAP, packer(TRAP)) for packer in PACKERS.values())
    places, optimal, _ = exact(TRAP, PACKERS[Algorithm.BEST_FIT](TRAP), 10_000)
    check_placement(TRAP, places)
    assert (height(TRAP, places), greedy, optimal) == (peak_bytes(TRAP), 10, True)
    assert height(TRAP, pack(TRAP)) == 9


def test_a_search_without_steps_keeps_what_it_had() -> None:
    start = PACKERS[Algorithm.BEST_FIT](TRAP)
    places, optimal, _ = exact(TRAP, start, 0)
    assert (places, optimal) == (start, False)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({"a": 0, "b": 0}, "share bytes and time"),
        ({"a": 0}, "placed at -1"),
        ({"a": 0, "b": 9}, "alignment 4 is placed at 9"),
    ],
)
def test_what_is_wrong_with_a_placement(places: Placement, message: str) -> None:
    buffers = [Buffer("a", 0, 2, 8), Buffer("b", 1, 3, 8, 4)]
    with pytest.raises(PassError, match=f"WIR808.*{message}"):
        check_placement(buffers, places)


def test_live_bytes() -> None:
    assert live_bytes([Buffer("a", 0, 4, 10), Buffer("b", 2, 6, 3)]) == [(0, 10), (2, 13), (4, 3), (6, 0)]
    assert live_bytes([Buffer("a", 0, 4, 10)], alignment=16) == [(0, 16), (4, 0)]


@pytest.mark.slow
@given(buffer_lists())
def test_tables_come_back(buffers: list[Buffer]) -> None:
    assert list(read_csv(write_csv(buffers))) == buffers
    assert list(read_csv(write_csv(buffers, pack(buffers)))) == buffers


def test_the_table_of_others() -> None:
    """MiniMalloc's own tables have no alignment."""
    assert read_csv("id,lower,upper,size\nb1,0,3,4\n") == (Buffer("b1", 0, 3, 4),)
    assert write_csv([Buffer("b1", 0, 3, 4)], {"b1": 8}).splitlines()[1] == "b1,0,3,4,1,8"


@pytest.mark.parametrize("text", ["id,lower,upper\nb1,0,3\n", "id,lower,upper,size\nb1,0,3,many\n"])
def test_a_table_that_cannot_be_read(text: str) -> None:
    with pytest.raises(PassError, match="WIR809"):
        read_csv(text)


@pytest.mark.parametrize("seed", range(3))
def test_the_search_on_buffers_that_just_fit(seed: int) -> None:
    """A table in the form of MiniMalloc's challenge.

    Greedy placements take a third more, the search within a few steps much less.
    """
    buffers = challenge(100, seed)
    greedy, searched = pack(buffers), exact(buffers, pack(buffers), 2_000).places
    check_placement(buffers, searched)
    assert peak_bytes(buffers) == CAPACITY
    assert height(buffers, greedy) > 1.2 * CAPACITY
    assert height(buffers, searched) < 1.15 * CAPACITY


@pytest.mark.parametrize("live", [16, 1_000])
def test_ten_thousand_buffers(live: int) -> None:
    """Many live at once; quadratic algorithms are omitted, because they take too long."""
    buffers = generated(10_000, live)
    assert height(buffers, pack(buffers)) <= 1.01 * peak_bytes(buffers)


def test_one_budget_bounds_all_searches() -> None:
    """Steps, not seconds: a plan is the same on every machine."""
    buffers = challenge(60)
    budget = SearchBudget(100)
    heights = [height(buffers, pack(buffers, budget=budget)) for _ in range(2)]
    assert budget.steps == 0
    assert heights[0] <= heights[1]  # no budget remains for the second one
    before = SearchBudget()
    pack(buffers, budget=before)
    assert 0 < 20_000 - before.steps <= 5_000
