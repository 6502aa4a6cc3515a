"""Work to prove that live slots share no bytes, and the checks that remain for run time."""

from __future__ import annotations

import dataclasses
import random

import pytest

from wrapper_ir import check, ir, parse_program
from wrapper_ir.expr import Expr, Int, Interval, Sym, add, mul, prove_le
from wrapper_ir.verifier.checks.pools import Tenant, Tenants
from wrapper_ir.verifier.insert_checks import insert_checks, missing_checks
from wrapper_ir.verifier.obligations import Size


class Counted(int):
    """A number that counts its comparisons."""

    count = 0

    def __le__(self, other: int) -> bool:
        Counted.count += 1
        return int(self) <= int(other)


POOL = ir.Value("pool", ir.StorageType(mul(1 << 20, Sym("s0"))))


def tenant(number: int, start: int, nbytes: int, unit: Expr) -> Tenant:
    """A slot whose start and bytes are in units."""
    slot = ir.Value(f"s{number}", ir.StorageType(mul(nbytes, unit)))
    slot_tenant = Tenant.of(ir.Slot(pool=POOL, result=slot, offset=mul(start, unit)))
    return dataclasses.replace(slot_tenant, low=Counted(slot_tenant.low), high=Counted(slot_tenant.high))


def not_asked(one: Size, other: Size) -> bool:
    raise AssertionError("no proof is needed if sizes are numbers times one factor")


def comparisons(slots: int, live: int, unit: Expr) -> int:
    """The number of comparisons for `slots` slots; `live` of them exist at once, and each reuses the place of another."""
    tenants, live_slots = Tenants(not_asked), list[Tenant]()
    places = [64 * n for n in range(live)]
    random.Random(0).shuffle(places)
    Counted.count = 0
    for number in range(slots):
        if len(live_slots) == live:
            tenants.remove(live_slots.pop(0))
        new = tenant(number, places[number % live], 64, unit)
        at = tenants.place(new)
        assert not tenants.near(new, at)
        tenants.add(new, at)
        live_slots.append(new)
    return Counted.count


@pytest.mark.parametrize("unit", [Int(1), Sym("s0"), mul(Sym("s0"), add(Sym("s1"), 1))], ids=str)
def test_a_slot_is_compared_with_few_others(unit: Expr) -> None:
    few, many = comparisons(2_000, 16, unit), comparisons(2_000, 512, unit)
    assert many < 3 * few
    # a look-up and a removal, each a binary search among 512 with two comparisons a step
    assert many < 2_000 * 2 * 2 * 10


@pytest.mark.parametrize("seed", range(20))
def test_a_place_is_found_where_no_slot_overlaps(seed: int) -> None:
    rng = random.Random(seed)
    tenants, live = Tenants(not_asked), list[Tenant]()

    def overlaps(one: Tenant) -> bool:
        return any(one.low < other.high and other.low < one.high for other in live)

    for number in range(300):
        if live and rng.random() < 0.4:
            tenants.remove(live.pop(rng.randrange(len(live))))
        new = tenant(number, rng.randrange(200), rng.randrange(1, 30), Int(1))
        at = tenants.place(new)
        assert (at is None) == overlaps(new)
        if at is None:
            assert set(tenants.near(new, at)) == set(live)
        else:
            tenants.add(new, at)
            live.append(new)


def test_slots_of_several_factors_are_compared_with_their_neighbours() -> None:
    """Sums of symbols are not numbers times one factor, so they need as many proofs as steps of a binary search."""
    count = 0

    def proves(one: Size, other: Size) -> bool:
        nonlocal count
        count += 1
        return prove_le(one, other, {"s0": Interval(1, None), "s1": Interval(1, None)})

    tenants, both = Tenants(proves), add(Sym("s0"), Sym("s1"))
    for number in [*range(0, 64, 2), *range(1, 64, 2)]:
        slot = ir.Value(f"s{number}", ir.StorageType(mul(4, Sym(f"s{number % 2}"))))
        new = Tenant.of(ir.Slot(pool=POOL, result=slot, offset=mul(4 * number, both)))
        at = tenants.place(new)
        assert not tenants.near(new, at)
        tenants.add(new, at)
    assert count < 64 * 2 * 7


HEAD = """wir 0.5
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
    added = [str(op.condition) for op in missing_checks(program) if isinstance(op, ir.AssertExpr)]
    assert condition in added  # beside the declared ranges that it rests on
