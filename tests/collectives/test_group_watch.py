"""The thread that ends a process whose device waits for one that has ended or hangs: on a store that is a
table here.
"""

from __future__ import annotations

import threading
from typing import Any

from wrapper_ir_runtime import GroupWatch


class Table:
    """A store; the other process counts until it is dead, and has begun so many calls."""

    def __init__(self, *, lives: bool, calls: int = 1) -> None:
        self.values: dict[str, bytes] = {"wrapper_ir/alive/1": b"0 1"}
        self.lives, self.calls, self.asked = lives, calls, 0

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        self.asked += 1
        if self.lives:
            self.values[key] = f"{self.asked} {self.calls}".encode()
        return self.values[key]


def _watched(store: Any, *, stuck: bool, seconds: float, own_calls: Any = lambda: 1) -> str:
    """Returns the reason why the watch gave up, or ''."""
    done, why = threading.Event(), list[str]()

    def give_up(text: str) -> None:
        why.append(text)
        done.set()

    GroupWatch(store, (0, 2), 0.1, lambda _: stuck, own_calls, give_up).start()
    done.wait(seconds)
    return "".join(why)


def test_a_device_that_waits_for_a_dead_process_ends_this_one() -> None:
    assert "rank 1 has not been heard of" in _watched(Table(lives=False), stuck=True, seconds=10)


def test_who_needs_nothing_of_it_goes_on() -> None:
    assert _watched(Table(lives=False), stuck=False, seconds=0.6) == ""


def test_processes_that_count_are_alive() -> None:
    assert _watched(Table(lives=True), stuck=True, seconds=0.6) == ""


def test_a_process_that_lives_and_does_not_come_ends_this_one() -> None:
    """It hangs in Python, or waits for something else: its thread counts."""
    why = _watched(Table(lives=True, calls=4), stuck=True, seconds=10, own_calls=lambda: 5)
    assert "rank 1 has begun 4 calls, this process 5" in why


def test_a_process_that_is_ahead_is_not_waited_for() -> None:
    assert _watched(Table(lives=True, calls=6), stuck=True, seconds=0.6, own_calls=lambda: 5) == ""


def test_while_calls_begin_no_device_is_asked() -> None:
    count = iter(range(10**6))
    assert _watched(Table(lives=True, calls=0), stuck=True, seconds=0.6, own_calls=lambda: next(count)) == ""


def test_a_store_that_went_with_its_process() -> None:
    class Gone(Table):
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("connection reset\nby the peer")

    assert (
        _watched(Gone(lives=True), stuck=True, seconds=10)
        == "the group's store does not answer: connection reset"
    )
