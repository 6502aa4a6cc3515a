"""`plan-memory` across calls: callers pass memory for the allocations of their callees."""

from __future__ import annotations

from typing import Any

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import HEADER, STATE
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, find_runtime, tensor

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import parse_pipeline, run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_runtime.interp import InterpOptions, Interpreter

X = [float(i) for i in range(1, 17)]
HEAD = HEADER.replace("[0, *] hint 2", "[1, 64] hint 16")


# Any: numbers, in lists of lists
def _run(program: ir.Program, inputs: list[list[Any]], poison: int | None = None) -> tuple[list[object], int]:
    """Returns the results, and the number of storages that the run created."""
    options = InterpOptions(find_runtime=find_runtime, poison=poison)
    interpreter = Interpreter(bare_artifact(program, {"state": STATE}), ListMachine(), options)
    results = interpreter.boxed([tensor(x) for x in inputs])
    return [r.tolist() for r in results], interpreter.memory.storages


def _planned(text: str, inputs: list[list[Any]], spec: str = "plan-memory{slack=100}") -> ir.Program:
    """Returns the program after the pass, which `run_pipeline` verifies and compares.

    Results are the same, poisoned or not.
    """
    program = derive_frees(parse_program(HEAD + text))
    planned = run_pipeline(program, parse_pipeline(spec))
    want, before = _run(program, inputs)
    for poison in (None, 0x7B):
        got, storages = _run(planned, inputs, poison)
        assert got == want
        assert storages <= before
    return planned


def _allocations(program: ir.Program, function: str) -> list[str]:
    return [op.result.name for op in program.function(function).body if isinstance(op, ir.AllocStorage)]


def _text_of(program: ir.Program, function: str) -> str:
    text = print_program(program)
    return text[text.index(f"func @{function}(") :].split("\n}\n")[0]


def _chain(source: str, *names: str) -> str:
    """Each buffer is twice its predecessor; the last one is returned."""
    lines = []
    for name in names:
        lines += [f"  %{name} = alloc f32[16]", f"  call list::add.out(%{source}, %{source}, out=%{name})"]
        source = name
    return "\n".join(lines)


BRANCHES = f"""
func @main(%q: f32[1], %x: f32[16]) {{
  %p = call list::less(%q, 0) : bool[1]
  %r = cond %p then @long else @short (%x) : f32[16]
  return %r
}}
func @long(%x: f32[16]) {{
{_chain("x", "a", "b", "c", "d")}
  return %d
}}
func @short(%x: f32[16]) {{
{_chain("x", "a", "b")}
  return %b
}}
"""


def test_branches_share_what_they_are_lent() -> None:
    """Memory is passed for the larger branch: two buffers at once. Only the results are allocated inside."""
    planned = _planned(BRANCHES, [[1.0], X])
    assert (_allocations(planned, "long"), _allocations(planned, "short")) == (["d.s"], ["b.s"])
    assert (
        _text_of(planned, "main")
        == """\
func @main(%q: f32[1], %x: f32[16]) {
  %p = call list::less(%q, 0) : bool[1]
  drop %q
  %pool0 = alloc_storage 128
  %r = cond %p then @long else @short (%x, %pool0) : f32[16]
  drop %x
  free %p
  free %pool0
  return %r"""
    )
    assert (
        "func @short(%x: f32[16], %pool0: storage(128 align(64))) {\n  %a.s = slot %pool0 : 64"
        in print_program(planned)
    )
    _planned(BRANCHES, [[-1.0], X])


def test_a_result_of_a_branch_keeps_its_storage() -> None:
    """Nothing that a branch may return is in a slot."""
    text = BRANCHES.replace(
        "return %d", "%t = call list::nested(%c) : results\n  %n = unpack %t[0] : f32[16]\n  return %n"
    )
    program = derive_frees(parse_program(HEAD + text))
    planned = run_pipeline(program, "plan-memory{slack=100}")
    assert {"c.s"} <= {*_allocations(planned, "long")}


def test_no_more_is_held_for_the_sake_of_a_callee() -> None:
    """Passed memory is in use during the whole call, besides results of the callee.

    So only as much is passed as is needed then.
    """
    text = f"""
func @main(%x: f32[16]) {{
  %r = call_subgraph @f(%x) : f32[256]
  return %r
}}
func @f(%x: f32[16]) {{
{_chain("x", "a", "b", "c")}
  %s = alloc f32[256]
  launch @double(%c, %s, 2) extents(8, 8)
  return %s
}}
"""
    program = derive_frees(
        parse_program(HEAD + text.replace("return %s\n", "%y = view %s : f32[256]\n  return %y\n"))
    )
    for slack, lent in ((0, 64), (50, 128)):  # slots for a and c, or for b, too
        planned = run_pipeline(program, f"plan-memory{{slack={slack}}}")
        assert f"%pool0: storage({lent} align(64))" in _text_of(planned, "f")
        assert program_stats(planned).memory.peak <= program_stats(program).memory.live * (1 + slack / 100)


LOOP = f"""
func @main(%n: f32[1], %x: f32[16]) {{
  %r = while @more do @trip carried(%x) captured(%n) : f32[16]
  %s = call list::neg(%r) : f32[16]
  return %s
}}
func @more(%x: f32[16], %n: f32[1]) {{
  %v = view %x : f32[1]
  %t = call list::less(%v, 100) : bool[1]
  return %t
}}
func @trip(%x: f32[16], %n: f32[1]) {{
{_chain("x", "a", "b", "c")}
  return %c
}}
"""


def test_trips_of_a_loop_use_the_same_bytes() -> None:
    planned = _planned(LOOP, [[1.0], X])
    assert _allocations(planned, "trip") == ["c.s"]  # carried values keep their storages
    program = derive_frees(parse_program(HEAD + LOOP))
    storages = [_run(p, [[1.0], X])[1] for p in (program, planned)]
    trips = 3  # 1, 8, 64, 512
    assert storages[0] - storages[1] == 2 * trips - 1


NESTED = f"""
func @main(%n: f32[1], %x: f32[16]) {{
  %r = while @more do @outer carried(%x) captured(%n) : f32[16]
  return %r
}}
func @more(%x: f32[16], %n: f32[1]) {{
  %v = view %x : f32[1]
  %t = call list::less(%v, 1000) : bool[1]
  return %t
}}
func @less(%x: f32[16], %n: f32[1]) {{
  %v = view %x : f32[1]
  %t = call list::less(%v, 100) : bool[1]
  return %t
}}
func @outer(%x: f32[16], %n: f32[1]) {{
{_chain("x", "a", "b")}
  %y = while @less do @inner carried(%b) captured(%n) : f32[16]
  %d = alloc f32[16]
  call list::add.out(%y, %b, out=%d)
  %e = alloc f32[16]
  call list::add.out(%d, %d, out=%e)
  return %e
}}
func @inner(%x: f32[16], %n: f32[1]) {{
{_chain("x", "a", "b", "c")}
  return %c
}}
"""


def test_loops_in_loops() -> None:
    """The outer body passes a slot of its passed memory to the inner one: main allocates for both."""
    planned = _planned(NESTED, [[1.0], X])
    assert (_allocations(planned, "outer"), _allocations(planned, "inner")) == (["e.s"], ["c.s"])
    assert "= slot %pool1" in _text_of(planned, "outer")
    assert len(_allocations(planned, "main")) == 1


TWICE = f"""
func @main(%x: f32[16]) {{
  %a = call_subgraph @f(%x) : f32[16]
  %b = call_subgraph @f(%a) : f32[16]
  return %b
}}
func @f(%x: f32[16]) {{
{_chain("x", "a", "b", "c")}
  return %c
}}
"""


def test_a_callee_that_is_called_twice_uses_the_same_bytes() -> None:
    planned = _planned(TWICE, [X])
    assert len(_allocations(planned, "main")) == 1
    assert _text_of(planned, "main").count("= slot %pool2 : ") == 2


SYMBOLIC = """
func @main(%q: f32[1], %x: f32[s0, 16]) {
  define s0 = size(%x, 0)
  %p = call list::less(%q, 0) : bool[1]
  %r = cond %p then @long else @short (%x) : f32[s0, 16]
  return %r
}
func @long(%x: f32[s0, 16]) captures(s0) {
  %a = alloc f32[s0, 16]
  call list::add.out(%x, %x, out=%a)
  %b = alloc f32[s0, 16]
  call list::add.out(%a, %a, out=%b)
  %r = call list::neg(%b) : f32[s0, 16]
  return %r
}
func @short(%x: f32[s0, 16]) captures(s0) {
  %a = alloc f32[s0, 16]
  call list::add.out(%x, %x, out=%a)
  %r = call list::neg(%a) : f32[s0, 16]
  return %r
}
"""


def test_symbolic_sizes_are_lent_where_all_branches_have_them() -> None:
    for size in (2, 5):
        planned = _planned(SYMBOLIC, [[1.0], [X] * size])
    assert "storage(128*s0 align(64))" in _text_of(planned, "long")
    assert not _allocations(planned, "long")
    without = SYMBOLIC.replace(
        "  %a = alloc f32[s0, 16]\n  call list::add.out(%x, %x, out=%a)\n  %r = call list::neg(%a)",
        "  %r = call list::neg(%x)",
    )
    assert without != SYMBOLIC
    planned = _planned(without, [[1.0], [X] * 4])
    assert "storage(" not in print_program(planned)  # @short would pay for @long


UNBACKED = """
func @main(%x: f32[16]) {
  %r = call_subgraph @f(%x) : f32[16]
  return %r
}
func @f(%x: f32[16]) {
  define u0 = size(%x, 0)
  %a = alloc f32[u0]
  call list::add.out(%x, %x, out=%a)
  %v = view %a : f32[16]
  %r = call list::neg(%v) : f32[16]
  return %r
}
"""


def test_sizes_that_only_the_callee_knows_stay_there() -> None:
    program = derive_frees(
        parse_program(HEAD.replace("u0 : int unbacked", "u0 : int unbacked [0, 64]") + UNBACKED)
    )
    assert run_pipeline(program, "plan-memory{slack=100}") == program


def test_captured_functions_allocate_their_own() -> None:
    """Replays need their memory at the addresses of the capture."""
    text = """wir 0.5
target cuda:0 arch "sm_90"

kernel foreign @k runtime "r" (read f32* src, write f32* dst) {{{
}}}
func @main(%x: f32[64], %y: f32[64]) {
  call_subgraph @f(%x, %y)
  return
}
func @f(%x: f32[64], %y: f32[64]) RECORD{
  %a = alloc f32[64]
  launch @k(%x, %a)
  launch @k(%a, %y)
  return
}
"""
    for replayable in (False, True):
        program = derive_frees(parse_program(text.replace("RECORD", "replayable " * replayable)))
        planned = run_pipeline(program, "plan-memory")
        assert ("storage(" in print_program(planned)) is not replayable


@pytest.mark.parametrize("text", [BRANCHES, LOOP, NESTED, TWICE])
def test_planning_again_changes_nothing(text: str) -> None:
    once = run_pipeline(derive_frees(parse_program(HEAD + text)), "plan-memory")
    assert run_pipeline(once, "plan-memory") == once
