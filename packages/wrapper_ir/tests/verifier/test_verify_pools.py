"""What it takes to see that slots which are there at once share no bytes, and which run-time checks are left."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from wrapper_ir import check, parse_program
from wrapper_ir.expr import Int
from wrapper_ir.ops import AssertExpr
from wrapper_ir.passes import insert_checks, missing_checks
from wrapper_ir.types import StorageType
from wrapper_ir.values import Value
from wrapper_ir.verifier.checks.pools import Tenant, Tenants


class Counted(int):
    """A number that counts how often it is compared with less or greater ones."""

    count = 0

    def __lt__(self, other: int) -> bool:
        Counted.count += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        Counted.count += 1
        return int(self) > int(other)


def tenant(number: int, start: int, nbytes: int) -> Tenant:
    slot = Value(f"s{number}", StorageType(Int(nbytes)))
    return Tenant(slot, Counted(start), Counted(start + nbytes), Int(nbytes))


def comparisons(slots: int, live: int) -> int:
    """Of `slots` slots, of which `live` are there at once and each lies where one ended before."""
    found, there = Tenants(), list[Tenant]()
    places = [64 * n for n in range(live)]
    random.Random(0).shuffle(places)
    Counted.count = 0
    for number in range(slots):
        if len(there) == live:
            found.remove(there.pop(0))
        made = tenant(number, places[number % live], 64)
        assert not list(found.near(made))
        found.add(made, apart=True)
        there.append(made)
    return Counted.count


def test_a_slot_is_compared_with_few_others() -> None:
    few, many = comparisons(10_000, 16), comparisons(10_000, 1024)
    assert many < 3 * few
    assert many < 10_000 * 3 * 12  # two look-ups and a removal, each a binary search among 1,024


@pytest.mark.parametrize("seed", range(20))
def test_near_finds_what_every_pair_finds(seed: int) -> None:
    rng = random.Random(seed)
    found, there = Tenants(), list[Tenant]()

    def overlapping(one: Tenant) -> Iterator[str]:
        for other in there:
            if int(one.start) < int(other.end) and int(other.start) < int(one.end):  # type: ignore[arg-type]  # ints here
                yield other.slot.name

    for number in range(300):
        if there and rng.random() < 0.4:
            found.remove(there.pop(rng.randrange(len(there))))
        made = tenant(number, rng.randrange(200), rng.randrange(1, 30))
        wanted = sorted(overlapping(made))
        assert sorted(other.slot.name for other in found.near(made)) == wanted
        if not wanted:
            found.add(made, apart=True)
            there.append(made)


HEAD = """wir 0.3
target cpu

symbol s0 : int backed [0, 1024]
symbol s1 : int backed [0, 1024]
"""


def text(body: str) -> str:
    lines = "".join(f"  {line.strip()}\n" for line in body.strip().splitlines())
    params = "%x: f32[s0], %y: f32[s1]"
    defines = "  define s0 = size(%x, 0)\n  define s1 = size(%y, 0)\n"
    return f"{HEAD}\nfunc @main({params}) {{\n{defines}{lines}  return\n}}\n"


PROVED = {
    "side by side": """
        %pool = alloc_storage s0*4 + s1*4 pool
        %a = slot %pool : s0*4
        %b = slot %pool + s0*4 : s1*4
        free %b
        free %a
        free %pool""",
    "one after the other": """
        %pool = alloc_storage s0*4 pool
        %a = slot %pool : s0*4
        free %a
        %b = slot %pool : s0*4
        free %b
        free %pool""",
    "empty": """
        %pool = alloc_storage 8 pool
        %a = slot %pool : 8
        %b = slot %pool + 4 : 0
        free %b
        free %a
        free %pool""",
}
OPEN = {
    "the end of the pool": (
        "%pool = alloc_storage s0*4 pool\n%a = slot %pool : s1*4\nfree %a\nfree %pool",
        "s1 <= s0",
    ),
    "the distance": (
        "%pool = alloc_storage 8192 pool\n%a = slot %pool : s0*4\n%b = slot %pool + s1*4 : 4096\n"
        "free %a\nfree %b\nfree %pool",
        "s0*4 == 0 or s1 + 1024 <= 0 or s0 <= s1",
    ),
}


@pytest.mark.parametrize("body", PROVED.values(), ids=PROVED)
def test_proved_slots_cost_nothing(body: str) -> None:
    program = parse_program(text(body))
    assert check(program) == ()
    assert insert_checks(program) == program


@pytest.mark.parametrize(("body", "condition"), OPEN.values(), ids=OPEN)
def test_open_slots_are_checked_when_the_program_runs(body: str, condition: str) -> None:
    program = parse_program(text(body))
    assert check(program) == ()
    added = [str(op.condition) for op in missing_checks(program) if isinstance(op, AssertExpr)]
    assert condition in added  # beside the declared ranges that it rests on
