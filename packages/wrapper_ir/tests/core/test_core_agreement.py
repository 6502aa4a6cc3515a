"""Agreement of processes on a program: by a store, with timeouts, and without torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from packages.wrapper_ir.tests.core.store_bus import Bus, BusStore

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact.agreement import manifest, program_digest
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime import Agreement, agree

PROGRAM = """wir 0.5
target cuda:{device} arch "sm_90"

extern "symm_mem::one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective) symmetric(input)

func @main(%x: f32[{rows}, 4]) {{
  %s = alloc_storage {bytes} symmetric("0", {id})
  %b = view %s : f32[{rows}, 4]
  copy %b, %x
  %y = call symm_mem::one_shot_all_reduce(%b, "{operation}", "0") : f32[{rows}, 4]
  free %s
  return %y
}}
"""
USUAL = {"device": 0, "rows": 8, "bytes": 128, "id": 5, "operation": "sum"}


def _program(**changes: object) -> ir.Program:
    return parse_program(PROGRAM.format(**{**USUAL, **changes}))


def _lines(**changes: object) -> tuple[str, ...]:
    return manifest(Analyses(_program(**changes)))


def _all(bus: Bus, lines: Callable[[int], tuple[str, ...]]) -> list[str]:
    """Returns the error of each process; '' if it continued."""

    def one(rank: int) -> str:
        try:
            agree(bus.store(rank), "0", lines(rank))
        except ExecutionError as error:
            assert error.code == "WIR933"
            return str(error)
        return ""

    with ThreadPoolExecutor(bus.size) as pool:
        return list(pool.map(one, range(bus.size)))


def test_the_device_of_a_process_is_its_own() -> None:
    assert _lines() == _lines(device=3)
    assert (
        program_digest(_program())
        == program_digest(_program(device=1))
        != program_digest(_program(rows=4, bytes=64))
    )


@pytest.mark.parametrize("size", [1, 2, 4, 300])
def test_equal_programs_go_on(size: int) -> None:
    """Agrees with five messages per process, and one more that rank 0 reads from each."""
    bus, lines = Bus(size, 60.0), _lines()
    assert _all(bus, lambda rank: lines) == [""] * size
    assert bus.used <= 5 * size


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"rows": 4, "bytes": 64}, ("%x: f32[8, 4]", "%x: f32[4, 4]")),
        ({"id": 6}, ('symmetric("0", 5)', 'symmetric("0", 6)')),
        ({"operation": "avg"}, ('"sum", "0"', '"avg", "0"')),
    ],
)
@pytest.mark.parametrize("odd", [0, 2])
def test_every_process_is_told_the_first_difference(
    changes: dict[str, object], what: tuple[str, str], odd: int
) -> None:
    """Reports the difference in every process, for any different rank."""
    lines = {True: _lines(**changes), False: _lines()}
    reports = _all(Bus(3), lambda rank: lines[rank == odd])
    assert all(reports)
    for text in reports:
        assert all(part in text for part in what)


def test_tuning_is_compared() -> None:
    usual = _lines()
    other = tuple("tuning: 0" if line.startswith("tuning: ") else line for line in usual)
    assert other != usual
    assert all("tuning: 0" in text for text in _all(Bus(2), lambda rank: other if rank else usual))


def test_a_process_that_does_not_come_is_named_in_time() -> None:
    bus, lines, begin = Bus(3, 0.3), _lines(), time.monotonic()

    def one(rank: int) -> str:
        with pytest.raises(ExecutionError) as caught:
            agree(bus.store(rank), "0", lines)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(one, [0, 1]))
    assert "rank 2 has no program" in reports[0]
    assert time.monotonic() - begin < 5
    assert "in time" in reports[1]


def test_one_process_may_come_again_alone() -> None:
    """Agrees again when processes compile again, or load the same artifact again."""
    bus, lines = Bus(2), _lines()
    assert _all(bus, lambda rank: lines) == ["", ""]
    agree(bus.store(1), "0", lines)


def test_later_calls_ask_nothing() -> None:
    bus, opened = Bus(1), list[str]()

    def store(group: str) -> BusStore:
        opened.append(group)
        return bus.store(0)

    agreement = Agreement(("0", "tp"), _lines(), store)
    for _ in range(3):
        agreement()
    assert opened == ["0", "tp"]
