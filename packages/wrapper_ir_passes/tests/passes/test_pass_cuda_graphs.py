"""`cuda-graphs`: regions that become replayable functions, and the reasons against the rest."""

from __future__ import annotations

import logging

import pytest

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

HEAD = """wir 0.5
target cuda:0

symbol s0 : int backed [1, 64] hint 8
symbol u0 : int unbacked

const %w : f32[8]
mutable const %count : f32[8]

extern "aten::relu(Tensor self) -> Tensor"
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::nonzero(Tensor self) -> Tensor"
extern "mine::reads(Tensor self) -> Tensor" tags(cudagraph_unsafe)
extern "mine::group(Tensor self) -> Tensor" tags(collective)

"""


def graphs(body: str, spec: str = "cuda-graphs") -> ir.Program:
    """Returns the program of these functions after the pass, verified, and compared with the original."""
    return run_pipeline(derive_frees(parse_program(HEAD + body)), spec)


def text(program: ir.Program) -> str:
    """Its functions."""
    printed = print_program(program)
    return printed[printed.index("func @main") :]


def test_a_whole_program() -> None:
    """The host reads sizes; weights that are constants exist already."""
    program = graphs("""func @main(%x: f32[s0, 8], %p: static f32[8]) {
  define s0 = size(%x, 0)
  assert s0 <= 64 "too long"
  %y = alloc f32[s0, 8]
  call aten::add.out(%x, %w, out=%y)
  %z = call aten::relu(%y) : f32[s0, 8]
  call aten::add.out(%w, %p, out=%count)
  return %z
}
""")
    assert (
        text(program)
        == """func @main(%x: f32[s0, 8], %p: static f32[8]) {
  define s0 = size(%x, 0)
  assert s0 <= 64 "too long"
  %z = call_subgraph @graph_0(%x, %p) : f32[s0, 8]
  drop %x
  drop %p
  return %z
}

func @graph_0(%x: f32[s0, 8], %p: static f32[8]) captures(s0) replayable {
  %y = alloc f32[s0, 8]
  call aten::add.out(%x, %w, out=%y)
  drop %x
  %z = call aten::relu(%y) : f32[s0, 8]
  free %y.s
  call aten::add.out(%w, %p, out=%count)
  drop %p
  return %z
}
"""
    )


BETWEEN = """func @main(%x: f32[8], %host: f32[8] @cpu) {
  %a = alloc f32[8]
  call aten::add.out(%x, %w, out=%a)
  %b = call aten::relu(%a) : f32[8]
  %h = call aten::relu(%host) : f32[8] @cpu
  %c = view %a.s + 16 : f32[4]
  %d = call aten::relu(%c) : f32[4]
  call aten::relu_(%b)
  call aten::relu_(%x)
  %e = view %x + 16 : f32[4]
  return %b, %d, %e, %h
}
"""


def test_memory_between_regions() -> None:
    """A region's allocations are its results; a later region gets them by address.

    Tensors over such a storage start at its bytes. Views of earlier memory that leave a region are created
    before it.
    """
    assert (
        text(graphs(BETWEEN))
        == """func @main(%x: f32[8], %host: f32[8] @cpu) {
  %b, %a.s.bytes = call_subgraph @graph_0(%x) : f32[8], u8[32]
  %h = call aten::relu(%host) : f32[8] @cpu
  drop %host
  %c = view %a.s.bytes + 16 : f32[4]
  %e = view %x + 16 : f32[4]
  %d = call_subgraph @graph_1(%c, %b, %x) : f32[4]
  drop %x
  free %a.s.bytes
  return %b, %d, %e, %h
}

func @graph_0(%x: f32[8]) replayable {
  %a = alloc f32[8]
  call aten::add.out(%x, %w, out=%a)
  drop %x
  %b = call aten::relu(%a) : f32[8]
  %a.s.bytes = view %a.s : u8[32]
  return %b, %a.s.bytes
}

func @graph_1(%c: static f32[4], %b: static f32[8], %x: f32[8]) replayable {
  %d = call aten::relu(%c) : f32[4]
  drop %c
  call aten::relu_(%b)
  drop %b
  call aten::relu_(%x)
  drop %x
  return %d
}
"""
    )


def test_views_of_memory_that_is_written_share_an_address() -> None:
    """A copy of one would not receive writes through the other."""
    program = graphs("""func @main(%x: f32[8]) {
  %a = view %x : f32[4]
  %h = call mine::reads(%a) : f32[4]
  call aten::relu_(%x)
  %y = call aten::relu(%a) : f32[4]
  return %y, %h
}
""")
    assert "func @graph_0(%x: static f32[8], %a: static f32[4]) replayable {" in text(program)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ("%h = call aten::relu(%host) : f32[8] @cpu", "... is on cpu"),
        ("copy %x, %host", "... is on cpu"),
        ("%h = call mine::reads(%x) : f32[8]", "mine::reads is marked as one that cannot be captured"),
        ("%h = call mine::group(%x) : f32[8]", "it communicates with other processes"),
        ("debug names %x", "the host waits for the device here"),
        ("resize_storage %x, 32", "the storage of ... is another after it"),
        ("%e = record_event @cuda:0\n  drop %e", "it is work of several streams"),
        ("%h = call aten::nonzero(%x) : i64[u0, 1]\n  define u0 = size(%h, 0)", "only a run knows u0"),
        ('enter_profile "step"\n  exit_scope', "a scope of profilers begins or ends here"),
    ],
)
def test_what_splits(op: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """The reasons are in the log, and in the statistics of the result."""
    body = f"""func @main(%x: f32[8], %host: f32[8] @cpu) {{
  %a = call aten::relu(%x) : f32[8]
  %b = call aten::relu(%a) : f32[8]
  {op}
  %c = call aten::relu(%b) : f32[8]
  %d = call aten::relu(%c) : f32[8]
  return %d
}}
"""
    with caplog.at_level(logging.INFO, "wrapper_ir_passes"):
        program = graphs(body)
    assert [f.replayable for f in program.functions] == [False, True, True]
    assert f": {why}" in "\n".join(r.getMessage() for r in caplog.records)
    stats = program_stats(program)
    assert stats.replayable == 2
    assert why in stats.not_replayed


def test_options() -> None:
    body = """func @main(%x: f32[8]) {
  %a = call aten::relu(%x) : f32[8]
  %b = call mine::group(%a) : f32[8]
  %n = call aten::nonzero(%b) : i64[u0, 1]
  define u0 = size(%n, 0)
  %c = call aten::relu(%n) : i64[u0, 1]
  %d = call aten::relu(%c) : i64[u0, 1]
  return %d
}
"""
    assert len(graphs(body).functions) == 1
    assert "captures(u0) replayable" in text(graphs(body, "cuda-graphs{unbacked=true}"))
    assert len(graphs(body, "cuda-graphs{collectives=true}").functions) == 2
    assert len(graphs(body, "cuda-graphs{least=1}").functions) == 2


MATMUL = 'extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"\n'


def test_regions_where_nothing_but_the_program_allocates() -> None:
    """A matmul writes into its argument; `relu` allocates its result."""
    body = """
func @main(%x: f32[8, 8]) {
  %a = alloc f32[8, 8]
  call aten::mm.out(%x, %x, out=%a)
  copy %a, %x
  %b = call aten::relu(%a) : f32[8, 8]
  %c = alloc f32[8, 8]
  call aten::mm.out(%b, %x, out=%c)
  copy %c, %x
  return %c
}
"""
    whole = graphs(MATMUL + body)
    assert [f.replayable for f in whole.functions] == [False, True]
    stats = program_stats(whole)
    assert stats.foreign_memory == {"graph_0": "aten::relu allocates memory of its own"}
    assert ("  @graph_0 not captured in C++", "aten::relu allocates memory of its own") in list(stats.rows())
    split = graphs(MATMUL + body, "cuda-graphs{own_memory=true}")
    assert [f.replayable for f in split.functions] == [False, True, True]
    assert not program_stats(split).foreign_memory


def test_memory_of_a_group_stays_out_where_graphs_have_their_own() -> None:
    """The group may release it while a graph still uses it."""
    body = """
func @main(%x: f32[8, 8]) {
  %a = alloc f32[8, 8]
  call aten::mm.out(%x, %x, out=%a)
  copy %a, %x
  %s = alloc_storage 256 symmetric("0", 5)
  %b = view %s : f32[8, 8]
  call aten::mm.out(%a, %x, out=%b)
  copy %b, %x
  %y = alloc f32[8, 8]
  copy %y, %b
  free %s
  return %y
}
"""
    whole = graphs(MATMUL + body)
    assert [f.replayable for f in whole.functions] == [False, True]
    why = "%s is memory of a process group, which may release it"
    assert program_stats(whole).foreign_memory == {"graph_0": why}
    split = graphs(MATMUL + body, "cuda-graphs{own_memory=true}")
    assert [f.replayable for f in split.functions] == [False, True, True]
    assert "%s = alloc_storage" in text(split).partition("func @graph_0")[0]


def test_pools_of_several_regions_split() -> None:
    """If it runs before `plan-memory`, each region has a separate pool."""
    names = iter("abcdefg")
    source, lines = "x", []
    for step in ("add", "add", "add", "host", "add", "add", "add"):
        if step == "host":
            lines.append("  %h = call mine::reads(%w) : f32[8]")
            continue
        name = next(names)
        lines += [f"  %{name} = alloc f32[8]", f"  call aten::add.out(%{source}, %w, out=%{name})"]
        source = name
    lines.append(f"  %y = call aten::relu(%{source}) : f32[8]")
    body = "\n".join(["func @main(%x: f32[8]) {", *lines, "  return %y, %h", "}", ""])
    program = graphs(body, "cuda-graphs,plan-memory{slack=100}")
    assert [sum(" pool" in line for line in f.split("\n")) for f in text(program).split("func @")[1:]] == [
        0,
        1,
        1,
    ]
    later = graphs(body, "plan-memory{slack=100},cuda-graphs")
    assert len(later.functions) < len(program.functions)
    assert "... is a pool of several regions" in program_stats(later).not_replayed


def test_branches_by_sizes_are_part_of_a_region() -> None:
    branches = """
func @left(%x: f32[s0]) captures(s0) {
  %y = call aten::relu(%x) : f32[s0]
  drop %x
  return %y
}

func @right(%x: f32[s0]) captures(s0) {
  %y = call aten::relu(%x) : f32[s0]
  drop %x
  return %y
}
"""
    main = """func @main(%x: f32[s0], %n: int) {
  define s0 = size(%x, 0)
  %y = cond s0 > 4 then @left else @right (%x) : f32[s0]
  %z = call aten::relu(%y) : f32[s0]
  return %z
}
"""
    program = graphs(main + branches)
    assert "call_subgraph @graph_0(%x) : f32[s0]" in text(program)
    assert "captures(s0) replayable" in text(program)
    unsafe = graphs(main + branches.replace("aten::relu", "mine::reads"))
    assert len(unsafe.functions) == 3


def test_donated_arguments_are_the_regions_to_end() -> None:
    """Excluded are those used afterwards, or with two names in it."""
    body = """func @main(%x: owned static f32[8], %y: owned static f32[8], %z: owned static f32[8], %b: static f32[8]) {
  %half = view %z : f32[4]
  %1 = call aten::relu(%x) : f32[8]
  %2 = call aten::relu(%y) : f32[8]
  %3 = call aten::relu(%z) : f32[8]
  %4 = call aten::relu(%half) : f32[4]
  %5 = call aten::relu(%b) : f32[8]
  %6 = call mine::reads(%y) : f32[8]
  %7 = call aten::relu(%half) : f32[4]
  return %1, %2, %3, %4, %5, %6, %7
}
"""
    donated = text(graphs(body, "cuda-graphs{donated=true}"))
    assert (
        donated[donated.index("func @graph_0") :]
        == """func @graph_0(
    %x: owned static f32[8],
    %y: static f32[8],
    %z: static f32[8],
    %half: static f32[4],
    %b: static f32[8],
) replayable {
  %1 = call aten::relu(%x) : f32[8]
  free %x
  %2 = call aten::relu(%y) : f32[8]
  drop %y
  %3 = call aten::relu(%z) : f32[8]
  drop %z
  %4 = call aten::relu(%half) : f32[4]
  drop %half
  %5 = call aten::relu(%b) : f32[8]
  drop %b
  return %1, %2, %3, %4, %5
}
"""
    )
    plain = text(graphs(body))
    assert "owned" not in plain[plain.index("func @graph_0") :]
