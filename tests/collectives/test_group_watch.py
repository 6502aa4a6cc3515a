"""The thread that ends a process whose device waits for one that has ended: on a store that is a table here."""

from __future__ import annotations

import threading
from typing import Any

from wrapper_ir_torch.watch import GroupWatch


class Table:
    """A store; the other process counts until it is dead."""

    def __init__(self, *, lives: bool) -> None:
        self.values: dict[str, bytes] = {"wrapper_ir/alive/1": b"0"}
        self.lives, self.asked = lives, 0

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def get(self, key: str) -> bytes:
        self.asked += 1
        if self.lives:
            self.values[key] = str(self.asked).encode()
        return self.values[key]


def _watched(store: Any, *, stuck: bool, seconds: float) -> str:
    """Why the watch gave up; '' where it did not."""
    done, why = threading.Event(), list[str]()

    def give_up(text: str) -> None:
        why.append(text)
        done.set()

    GroupWatch(store, 0, 2, 0.1, lambda _: stuck, give_up).start()
    done.wait(seconds)
    return "".join(why)


def test_a_device_that_waits_for_a_dead_process_ends_this_one() -> None:
    assert "rank 1 has not been heard of" in _watched(Table(lives=False), stuck=True, seconds=10)


def test_who_needs_nothing_of_it_goes_on() -> None:
    assert _watched(Table(lives=False), stuck=False, seconds=0.6) == ""


def test_processes_that_count_are_alive() -> None:
    assert _watched(Table(lives=True), stuck=True, seconds=0.6) == ""


def test_a_store_that_went_with_its_process() -> None:
    class Gone(Table):
        def check(self, keys: list[str]) -> bool:
            raise RuntimeError("connection reset\nby the peer")

    assert (
        _watched(Gone(lives=True), stuck=True, seconds=10)
        == "the group's store does not answer: connection reset"
    )
