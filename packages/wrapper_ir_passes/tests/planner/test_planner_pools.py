"""Groups of buffers in pools: the limit is kept, with few pools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper_ir_passes.planner import Buffer, check_placement, held_bytes, plan_pools

TIMES = 16


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Buffer], list[int]]:
    """Buffers, and the bytes of other storages."""
    buffers = []
    for number in range(draw(st.integers(1, 24))):
        begin = draw(st.integers(0, TIMES - 2))
        end = draw(st.integers(begin + 1, TIMES - 1))
        buffers.append(
            Buffer(f"b{number}", begin, end, draw(st.integers(1, 64)), draw(st.sampled_from((1, 16))))
        )
    outside = draw(st.lists(st.integers(0, 99), min_size=TIMES, max_size=TIMES))
    return buffers, outside


@pytest.mark.slow
@given(problems(), st.sampled_from((0.0, 0.01, 0.5)))
def test_the_limit_holds(problem: tuple[list[Buffer], list[int]], slack: float) -> None:
    buffers, outside = problem
    kinds = {b.name: int(b.name[1:]) % 2 for b in buffers}
    pools = plan_pools(buffers, outside, kinds, slack)
    assert sorted(b.name for pool in pools for b in pool.buffers) == sorted(kinds)
    for pool in pools:
        check_placement(pool.buffers, pool.offsets)
        assert len({kinds[b.name] for b in pool.buffers}) == 1
        assert all(pool.offsets[b.name] + b.size <= pool.size for b in pool.buffers)
    assert max(held_bytes(pools, outside)) <= max(held_bytes(buffers, outside)) * (1 + slack)


def _pools(buffers: list[Buffer], outside: list[int]) -> list[str]:
    pools = plan_pools(buffers, outside, dict.fromkeys((b.name for b in buffers), 0), 0)
    return sorted(" ".join(sorted(b.name for b in pool.buffers)) for pool in pools)


def test_one_pool_where_nothing_else_is_held() -> None:
    buffers = [Buffer("a", 0, 2, 64), Buffer("b", 1, 3, 64), Buffer("c", 2, 4, 64), Buffer("d", 3, 5, 64)]
    assert _pools(buffers, [0] * 5) == ["a b c d"]


def test_a_result_at_the_end_keeps_pools_apart() -> None:
    """With the result of 64 bytes, a pool of all three would hold 192 bytes where 128 are needed."""
    buffers = [Buffer("a", 0, 2, 64), Buffer("b", 1, 3, 64), Buffer("c", 2, 4, 64)]
    assert _pools(buffers, [0, 0, 0, 64]) == ["a c", "b"]


def test_a_pool_ends_before_a_large_result() -> None:
    early = [Buffer(f"e{i}", i, i + 2, 100) for i in range(4)]
    late = [Buffer("last", 5, 8, 10)]
    assert _pools(early + late, [0] * 6 + [500] * 2) == ["e0 e1 e2 e3", "last"]


def test_kinds_do_not_share() -> None:
    buffers = [Buffer("a", 0, 2, 64), Buffer("b", 2, 4, 64)]
    assert len(plan_pools(buffers, [0] * 4, {"a": "cpu", "b": "cuda"})) == 2
