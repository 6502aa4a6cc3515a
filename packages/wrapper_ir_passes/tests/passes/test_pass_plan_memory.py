"""`plan-memory`: text in, text out; random programs stay valid and do the same."""

from __future__ import annotations

import random

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import parse_pipeline, run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.translation import compare
from wrapper_ir_tools.testing import random_program

HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 64] hint 8
symbol s1 : int backed [2, 64] hint 8

extern "aten::relu(Tensor self) -> Tensor"
extern "demo::parts(Tensor self) -> (Tensor, Tensor)"

kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{

}}}

"""


def _planned(body: str, spec: str = "plan-memory{slack=1}") -> str:
    """Returns the body of main after the pass; `run_pipeline` verifies the program and compares it with the
    original."""
    program = parse_program(f"{HEAD}func @main({body.strip()}\n}}\n")
    text = print_program(run_pipeline(program, parse_pipeline(spec)))
    return text[text.index("func @main") :].split("{\n", 1)[1].rsplit("}", 1)[0]


def _chain(sizes: list[str], *, given: str = "%x: f32[64]", last: str = "f32[16]") -> str:
    """Each buffer is computed from its predecessor; the last one is returned."""
    lines, source = [f"{given}) {{"], "%x"
    lines += [
        f"  define {name} = size(%{x}, 0)" for name, x in (("s0", "x"), ("s1", "y")) if f"[{name}" in given
    ]
    for number, size in enumerate((*sizes, last)):
        lines.append(f"  %b{number} = alloc {size}")
        lines.append(f"  launch @k({source}, %b{number}) extents(4, 4)")
        source = f"%b{number}"
    return "\n".join([*lines, f"  return {source}"])


@pytest.mark.parametrize(
    ("call", "allocations"),
    [
        ("%r = call aten::relu(%b1) : f32[16]", 4),
        ("%t = call demo::parts(%b1) : results\n  %r = unpack %t[0] : f32[16]", 5),
    ],
)
def test_less_is_held_beside_results_of_unknown_sizes(call: str, allocations: int) -> None:
    """Results of an operator besides `%r` need additional memory.

    Idle bytes that would raise the call to the peak are released before it.
    """
    stages = _chain(["f32[64]", "f32[32]", "f32[96]", "f32[16]"], last="f32[1]")
    before, after = stages.split("  %b2 = alloc", 1)
    after = after.replace("launch @k(%b1", "launch @k(%r", 1)
    text = _planned(f"{before}  {call}\n  %b2 = alloc{after}", "plan-memory{slack=0}")
    assert text.count("= alloc") == allocations, text


@pytest.mark.parametrize(("layout", "pooled"), [("[s0 - 2, 3]{8, 1}", False), ("[s0 - 2, 3]", True)])
def test_padded_rows_that_may_be_none_lie_apart(layout: str, pooled: bool) -> None:
    """Their extent is negative if there are none, and slots have no negative sizes."""
    text = _planned(_chain([f"f32{layout}"] * 3, given="%x: f32[s0]", last="f32[1]"))
    assert ("slot" in text) is pooled


def test_a_chain_takes_two_places() -> None:
    """Storages that are live together are disjoint; the returned result keeps its storage."""
    assert (
        _planned(_chain(["f32[64]"] * 3, last="f32[1]"))
        == """\
  %pool0 = alloc_storage 512 pool
  %b0.s = slot %pool0 : 256
  %b0 = view %b0.s : f32[64]
  launch @k(%x, %b0) extents(4, 4)
  drop %x
  %b1.s = slot %pool0 + 256 : 256
  %b1 = view %b1.s : f32[64]
  launch @k(%b0, %b1) extents(4, 4)
  free %b0.s
  %b2.s = slot %pool0 : 256
  %b2 = view %b2.s : f32[64]
  launch @k(%b1, %b2) extents(4, 4)
  free %b1.s
  %b3 = alloc f32[1]
  launch @k(%b2, %b3) extents(4, 4)
  free %b2.s
  free %pool0
  return %b3
"""
    )


def test_symbolic_sizes_share_by_their_factor() -> None:
    """`256*s0` and `1024*s0` share a pool of a multiple of `s0`."""
    sizes = ["f32[s0, 64]", "f32[s0, 256]", "f32[s0, 64]", "f32[s0, 256]"]
    text = _planned(_chain(sizes, given="%x: f32[s0, 64]", last="f32[1]"))
    assert "%pool0 = alloc_storage 1280*s0 pool" in text
    assert text.count("slot %pool0") == 4


def test_sizes_of_two_factors_do_not_share() -> None:
    text = _planned(_chain(["f32[s0]", "f32[s1]"], given="%x: f32[s0], %y: f32[s1]", last="f32[1]"))
    assert "pool" not in text


@pytest.mark.parametrize(
    ("sizes", "shared"),
    [
        (
            ["f32[s0, 64]", "f32[s0, s1]", "f32[16]", "f32[s0, 4]"],
            True,
        ),  # 16*s0 bytes are no more than 256*s0
        (["f32[s0, s1, 8]", "f32[16]", "f32[s1, 8]"], True),  # and 32*s1 are no more than 32*s0*s1
        (["f32[2, 64]", "f32[16]", "f32[s0]"], True),  # and 4*s0 are no more than 512, as s0 is at most 64
        (["f32[1, 63]", "f32[16]", "f32[s0]"], False),  # but they may be more than 252
        (["f32[s0, s1]", "f32[16]", "f32[s0, s0]"], False),
        (["f32[s0]", "f32[16]", "f32[s0, s1]"], False),  # the larger one comes later
    ],
)
def test_sizes_that_are_known_to_be_no_larger_follow(sizes: list[str], shared: bool) -> None:
    """Each is in the bytes of an ended storage, also if their sizes depend on different symbols."""
    text = _planned(_chain(sizes, given="%x: f32[s0], %y: f32[s1]", last="f32[1]"))
    places = [line.split("slot ")[1].split(" ")[0] for line in text.splitlines() if " = slot " in line]
    factors = {line.split(" : ")[1] for line in text.splitlines() if " = slot " in line}
    assert (len(places) > len(set(places)) and len(factors) > 1) is shared


def test_no_more_is_held_for_the_sake_of_a_pool() -> None:
    """One pool of all would need 768 bytes besides a result of that size.

    Instead, `b0` and `b2` share one place.
    """
    text = _planned(_chain(["f32[64]"] * 3, last="f32[64]"))
    assert "%pool0 = alloc_storage 256 pool" in text
    assert [line.split()[0] for line in text.splitlines() if "slot" in line] == ["%b0.s", "%b2.s"]


def test_what_persists_lies_in_one_pool() -> None:
    """All persistent memory is held from call to call, so ending it early saves nothing. Storages of symbolic
    sizes belong to one call.
    """
    body = _chain(["f32[64]"] * 3 + ["f32[s0]"], given="%x: f32[s0, 64]", last="f32[64]")
    persistent = _planned(body, "plan-memory{persistent=true}")
    assert "%pool0 = alloc_storage 512 pool" in persistent
    assert persistent.count("= slot %pool0") == 3
    assert _planned(body, "plan-memory,plan-memory{persistent=true}") == persistent


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_that_persist(seed: int) -> None:
    program = random_program(random.Random(seed), size=30)
    planned = PlanMemory(persistent=True).run(program)
    assert check(planned) == ()
    assert compare(program, planned) is None


def test_slack_buys_fewer_allocations() -> None:
    text = _planned(_chain(["f32[64]"] * 3, last="f32[64]"), "plan-memory{slack=50}")
    assert text.count("= slot %pool0") == 3


@pytest.mark.slow
def test_a_percent_is_held_where_it_saves_much() -> None:
    body = _chain(["f32[64]"] * 3, last="f32[1]")
    program = parse_program(f"{HEAD}func @main({body.strip()}\n}}\n")
    peaks = [program_stats(run_pipeline(program, f"plan-memory{s}")).memory.peak for s in ("", "{slack=1}")]
    assert peaks == [512, 516]  # one allocation less is not worth four bytes
    program = _long_program(200, 40)
    plans = [run_pipeline(program, f"plan-memory{s}") for s in ("", "{slack=0}")]
    counts = [sum(isinstance(op, ir.AllocStorage) for op in p.main.body) for p in plans]
    assert counts[0] < counts[1] / 2, counts
    assert program_stats(plans[1]).memory.peak == program_stats(program).memory.live


def _long_program(count: int, live: int) -> ir.Program:
    """Storages of all sizes, with about this many live at once."""
    draw, uses = random.Random(0), dict[int, list[str]]()
    body = ["%x: f32[64], %sink: f32[64]) {"]
    for i in range(count):
        uses.setdefault(i + draw.randint(1, 2 * live - 1), []).append(f"%b{i}")
        body.append(f"%b{i} = alloc f32[{16 * draw.choice((1, 4, 16, 64, 256, 1024, 16384))}]")
        body.append(f"launch @k(%x, %b{i}) extents(4, 4)")
        body += [f"launch @k({b}, %sink) extents(4, 4)" for b in uses.pop(i, [])]
    return parse_program("\n".join([f"{HEAD}func @main(", *body, "return %x", "}", ""]))


@pytest.mark.parametrize("algorithm", ["by-size", "by-area", "best-fit"])
def test_algorithms(algorithm: str) -> None:
    assert (
        _planned(
            _chain(["f32[64]"] * 3, last="f32[1]"), f"plan-memory{{algorithm={algorithm},slack=1}}"
        ).count("slot")
        == 3
    )


LEFT_ALONE = {
    "returned": "%x: f32[64]) {\n  %a = alloc f32[64]\n  launch @k(%x, %a)\n  %b = alloc f32[64]\n  launch @k(%x, %b)\n"
    "  return %a, %b",
    "of operators": "%x: f32[64]) {\n  %a = call aten::relu(%x) : f32[64]\n  %b = call aten::relu(%a) : f32[64]\n  return %b",
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_is_left_alone(case: str) -> None:
    assert "slot" not in _planned(LEFT_ALONE[case])


ZEROED = (
    "%x: f32[64] @cuda:0) {\n"
    "  %a.s = alloc_storage 256 @cuda:0 stream(1)\n  %a = view %a.s : f32[64]\n"
    "  launch @k(%x, %a) extents(4, 4) stream(1)\n"
    "  %b.s = alloc_storage 256 @cuda:0 workspace zero(call) stream(1)\n  %b = view %b.s : f32[64]\n"
    "  launch @k(%b, %a) extents(4, 4) stream(1)\n  launch @k(%b, %b) extents(4, 4) stream(1)\n"
    "  %c.s = alloc_storage 256 @cuda:0 workspace zero(once) stream(1)\n  %c = view %c.s : f32[64]\n"
    "  launch @k(%c, %c) extents(4, 4) stream(1)\n  return"
)


def test_zeros_are_written_into_slots() -> None:
    """They are written on the stream that uses the bytes, after the previous storage has ended.

    Storages that keep their zeros are filled in each call, as without a plan.
    """
    text = PlanMemory().run(parse_program(f"{HEAD}func @main({ZEROED}\n}}\n"))
    lines = print_program(text).replace(" @cuda:0", "").splitlines()
    slots = [line.strip() for line in lines if "= slot" in line]
    assert slots == [
        "%a.s = slot %pool0 : 256",
        "%b.s = slot %pool0 + 256 : 256 zero(call) stream(1)",
        "%c.s = slot %pool0 : 256 zero(call) stream(1)",
    ]


def test_zeros_of_persistent_memory_stay() -> None:
    """A storage that stays zero between calls shares no bytes; one that each call fills may."""
    text = ZEROED.replace(" stream(1)", "").replace(" @cuda:0", "")
    plan = PlanMemory(persistent=True).run(parse_program(f"{HEAD}func @main({text}\n}}\n"))
    allocations = {
        op.result.name: (type(op), op.zero) for op in plan.ops if isinstance(op, ir.AllocStorage | ir.Slot)
    }
    assert allocations["b.s"] == (ir.Slot, ir.ZeroMode.CALL)
    assert allocations["c.s"] == (ir.AllocStorage, ir.ZeroMode.ONCE)


@pytest.mark.parametrize("size", ["f32[8 // (s0 - 8)]", "f32[ceildiv(s0, s0 - 8)]"])
def test_a_size_without_a_value_under_the_hints(size: str) -> None:
    """The program is valid, and divides by zero where `s0` is its hint: nothing is planned."""
    assert "slot" not in _planned(_chain([size] * 3, given="%x: f32[s0]", last="f32[1]"))


def test_names_of_constants_are_taken() -> None:
    body = _chain(["f32[64]"] * 3, last="f32[1]")
    text = HEAD.replace("kernel cpp", "const %pool0 : f32[1]\n\nkernel cpp") + f"func @main({body}\n}}\n"
    assert "%pool1 = alloc_storage 512 pool" in print_program(
        run_pipeline(parse_program(text), parse_pipeline("plan-memory{slack=1}"))
    )


def test_streams_have_pools_of_their_own() -> None:
    """Storages of two streams are not planned: one could write the bytes while the other reads them."""
    body = "%x: f32[64] @cuda:0) {\n"
    for number, stream in enumerate((0, 0, 1, 1)):
        on = f" stream({stream})"
        body += f"  %b{number} = alloc f32[64] @cuda:0{on}\n  launch @k(%x, %b{number}) extents(4, 4){on}\n"
        body += f"  launch @k(%b{number}, %b{number}) extents(4, 4){on}\n"
    plan = PlanMemory().run(parse_program(f"{HEAD}func @main({body}  return\n}}\n"))
    pools = {op.result.name: op.stream for op in plan.ops if isinstance(op, ir.AllocStorage)}
    slots = [(op.result.name, pools[op.pool.name]) for op in plan.ops if isinstance(op, ir.Slot)]
    assert slots == [("b0.s", 0), ("b1.s", 0), ("b2.s", 1), ("b3.s", 1)]


def test_pools_of_torch_stay_torchs() -> None:
    buffers = "".join(f"  %b{n} = alloc f32[64] @cuda:0\n  launch @k(%x, %b{n})\n" for n in range(2))
    body = f'%x: f32[64] @cuda:0) {{\n  enter_memory_pool "p"\n{buffers}  exit_scope\n  return\n}}\n'
    plan = PlanMemory().run(parse_program(f"{HEAD}func @main({body}"))
    assert _count(plan, ir.Slot) == 0


def _count(program: ir.Program, kind: type) -> int:
    return sum(isinstance(op, kind) for op in program.ops)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    """They are valid, behave the same, and hold no more memory than the slack allows."""
    program = random_program(random.Random(seed), size=30)
    planned = PlanMemory().run(program)
    assert check(planned) == ()
    assert compare(program, planned) is None
    assert program_stats(planned).memory.peak <= program_stats(program).memory.peak * 1.01
    assert _count(planned, ir.AllocStorage) <= _count(program, ir.AllocStorage)


def test_twice_is_once() -> None:
    program = random_program(random.Random(3), size=60)
    planned = PlanMemory().run(program)
    assert _count(planned, ir.Slot) > _count(program, ir.Slot)
    assert PlanMemory().run(planned) == planned
