"""Memory reports agree with the program, op by op; formats, files, the command."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from PIL import Image

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.errors import ReportError
from wrapper_ir_passes.analysis.memory import freed_at
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.memory.plan_memory import PlanMemory
from wrapper_ir_passes.planner import Buffer, check_placement, peak_bytes, read_csv
from wrapper_ir_tools.cli.main import main
from wrapper_ir_tools.report import (
    MemoryReport,
    Saving,
    memory_report,
    report_csv,
    report_json,
    report_text,
    write_report,
)
from wrapper_ir_tools.testing import RandomOptions, random_program

SCHEMA = Draft202012Validator(
    json.loads((files("wrapper_ir_tools") / "schema" / "memory.schema.json").read_text(encoding="utf-8"))
)
HEAD = """wir 0.5
target cpu

symbol s0 : int backed [2, 1024] hint 8
const %w : f32[64]
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::bernoulli(Tensor self) -> Tensor" tags(random)
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @add entry "k" (read f32* one, read f32* two, write f32* dst) {{{
}}}

"""


def _program(text: str) -> ir.Program:
    return derive_frees(parse_program(HEAD + text))


def _report(body: str, params: str = "%x: f32[64], %y: f32[64]") -> MemoryReport:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return memory_report(_program(f"func @main({params}) {{\n{lines}\n}}\n"))


RESIDUAL = """
    %a = alloc f32[64]
    launch @k(%x, %a)
    %b = alloc f32[256]
    launch @k(%y, %b) extents(256, 1024)
    %c = alloc f32[64]
    launch @k(%b, %c) extents(1024, 256)
    launch @add(%a, %c, %y)
    return %c
"""


def test_numbers_of_a_program() -> None:
    report = _report(RESIDUAL)
    assert (report.held_peak, report.live, report.bound) == (6 * 256, 6 * 256, 6 * 256)
    assert (report.allocated, report.allocations) == (6 * 256, 3)
    assert (report.constants, report.arguments) == (256, 512)
    (moment,) = report.peak
    assert (moment.function, moment.held) == ("main", ("a.s", "b.s", "c.s"))
    assert [(s.name, s.bytes) for _, s in report.held_at_peak()] == [
        ("b.s", 1024),
        ("a.s", 256),
        ("c.s", 256),
    ]
    storages = {s.name: s for s in report.functions[0].storages}
    assert storages["b.s"].op == "launch @k(%y, %b) extents(256, 1024)"
    assert storages["b.s"].kind == "allocation"


def test_what_a_storage_would_save() -> None:
    """`a` is idle while `b` and `c` are live; it is computed from an argument that still exists at its next
    use.
    """
    (saving,) = _report(RESIDUAL).savings
    assert saving == Saving(
        name="a.s",
        function="main",
        bytes=256,
        idle_from=2,
        idle_to=11,
        saves=256,
        how=("recompute", "offload"),
        again="launch @k(%x, %a)",
    )


@pytest.mark.parametrize(
    ("old", "new", "how"),
    [
        # the source of `a` is changed
        ("launch @k(%b, %c)", "launch @k(%y, %x)\n    launch @k(%b, %c)", ("offload",)),
        ("launch @add", "launch @k(%x, %a)\n    launch @add", ("split",)),
        ("%a = alloc f32[64]\n    launch @k(%x, %a)", "%a = call aten::bernoulli(%x) : f32[64]", ("offload",)),
        ("%a = alloc f32[64]\n    launch @k(%x, %a)", "%a = call aten::relu(%x) : f32[64]", ("recompute", "offload")),
        ("launch @k(%y, %b)", "launch @k(%y, %a)\n    launch @k(%y, %b)", ("recompute", "offload")),
        # written twice
        ("launch @k(%y, %b)", "launch @add(%a, %y, %a)\n    launch @k(%y, %b)", ("offload",)),
    ],
)  # fmt: skip
def test_how_it_would_save(old: str, new: str, how: tuple[str, ...]) -> None:
    assert old in RESIDUAL
    result = {s.name.removesuffix(".s"): s.how for s in _report(RESIDUAL.replace(old, new)).savings}
    assert result["a"] == how


CALLS = """func @main(%p: bool[], %x: f32[64]) {
  %a = call aten::relu(%x) : f32[64]
  %r = cond %p then @small else @large (%x) : f32[64]
  assert_finite %a
  return %r
}
func @small(%x: f32[64]) {
  %r = call aten::relu(%x) : f32[64]
  return %r
}
func @large(%x: f32[64]) {
  %b = alloc f32[512]
  launch @k(%x, %b) extents(256, 2048)
  %r = alloc f32[64]
  launch @k(%b, %r) extents(2048, 256)
  return %r
}
"""


def test_the_worst_moment_inside_a_branch() -> None:
    report = memory_report(_program(CALLS))
    assert [m.function for m in report.peak] == ["main", "large"]
    entries = [(m.function, s.name, s.bytes) for m, s in report.held_at_peak()]
    assert entries == [("large", "b.s", 2048), ("main", "a", 256), ("large", "r.s", 256)]
    assert sum(size for _, _, size in entries) == report.held_peak
    (saving,) = report.savings
    assert (saving.name, saving.saves, saving.how) == ("a", 256, ("recompute", "offload"))


def test_a_trip_of_a_loop_holds_the_results_of_the_one_before() -> None:
    report = memory_report(
        _program(
            """func @main(%go: bool[], %i: f32[64]) {
  %j = while @test do @body carried(%i) captured(%go) : f32[64]
  return %j
}
func @test(%i: f32[64], %go: bool[]) {
  return %go
}
func @body(%i: f32[64], %go: bool[]) {
  %j = call aten::relu(%i) : f32[64]
  return %j
}
"""
        )
    )
    entries = [(m.function, s.kind, s.bytes) for m, s in report.held_at_peak()]
    assert entries == [("main", "trip", 256), ("body", "result", 256)]
    assert report.held_peak == 512


def _given_back(function: ir.Function, program: ir.Program) -> list[int]:
    """Bytes of donated arguments that the function has freed or moved before each op."""
    analyses, sizes = Analyses(program), Sizes(program)
    live = analyses.get_for(function, analyse_liveness)
    donated = [root for root, position in live.aliasing.owned.items() if position < 0]
    ends = {root: end for root, end in freed_at(function, live).items() if root in donated}
    return [
        sum(sizes.bytes_of(root) for root, end in ends.items() if end < at)
        for at in range(len(function.body))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int, planned: bool) -> None:
    """Storages at each op match the bytes held, addresses do not overlap, and totals match `wir stats`."""
    program = random_program(random.Random(seed), size=30, options=RandomOptions(hostile=seed % 2 == 0))
    program = PlanMemory().run(program) if planned else program
    report = memory_report(program)
    memory = program_stats(program).memory
    assert (report.held_peak, report.live, report.bound) == (memory.peak, memory.live, memory.bound)
    for function, result in zip(program.functions, report.functions, strict=True):
        freed_before = _given_back(function, program)
        for at, size in enumerate(result.held):
            there = [s for s in result.storages if s.begin <= at < s.end and s.kind != "slot"]
            assert sum(s.bytes for s in there) == size + freed_before[at]
        for pool in {s.pool for s in result.storages}:
            placed = [s for s in result.storages if s.pool == pool]
            buffers = [Buffer(s.name, s.begin, s.end, s.bytes) for s in placed]
            check_placement(buffers, {s.name: s.address for s in placed})
    assert all(0 < s.saves <= s.bytes for s in report.savings)
    SCHEMA.validate(json.loads(report_json(report)))
    assert report_text(report).startswith("peak bytes held")


def test_slots_lie_in_their_pools() -> None:
    program = PlanMemory().run(random_program(random.Random(3), size=60))
    slots = 0
    for function, result in zip(program.functions, memory_report(program).functions, strict=True):
        storages = {s.name: s for s in result.storages}
        lent = {p.value.name for p in function.params}
        for slot in (s for s in result.storages if s.kind == "slot"):
            slots += 1
            if slot.pool in lent:
                # the pool belongs to the caller
                continue
            pool = storages[slot.pool]
            assert pool.address <= slot.address
            assert slot.address + slot.bytes <= pool.address + pool.bytes
            assert pool.begin <= slot.begin < slot.end <= pool.end
    assert slots


SYMBOLIC = """func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  launch @k(%x, %a)
  return %a
}
"""


@pytest.mark.parametrize(("hints", "expected_bytes"), [({}, 32), ({"s0": 100}, 400)])
def test_symbolic_sizes(hints: Mapping[str, int], expected_bytes: int) -> None:
    assert memory_report(_program(SYMBOLIC), hints).held_peak == expected_bytes


# --- files and the command


def _wir(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    path = tmp_path / "p.txt"
    path.write_text(HEAD + SYMBOLIC.replace("  return", "  drop %x\n  return"))
    return path


def test_command(program_file: Path) -> None:
    text = _wir("memory", program_file, "--hint", "s0=100").output
    assert text.splitlines()[0].split() == ["peak", "bytes", "held", "400"]
    result = json.loads(_wir("memory", program_file, "--json").output)
    assert {"held_peak": 32, "bound": 32, "allocations": 1}.items() <= result.items()
    assert _wir("memory", program_file, "--hint", "s0=4096").exit_code == 2


def test_many_rows_are_counted() -> None:
    lines = "\n".join(f"%b{n} = alloc f32[64]\nlaunch @k(%x, %b{n})" for n in range(30))
    report = _report(f"{lines}\nreturn {', '.join(f'%b{n}' for n in range(30))}")
    assert "  and 10 more" in report_text(report).splitlines()


def test_files(program_file: Path, tmp_path: Path) -> None:
    for name in ("r.html", "r.png", "r.csv", "r.json"):
        process = _wir("memory", program_file, "-o", tmp_path / name)
        assert (process.exit_code, process.output) == (0, f"{tmp_path / name}\n")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    SCHEMA.validate(json.loads((tmp_path / "r.json").read_text()))
    (buffer,) = read_csv((tmp_path / "r.csv").read_text())
    assert (buffer.name, buffer.size, buffer.alignment) == ("a.s", 32, 64)
    refused = _wir("memory", program_file, "-o", tmp_path / "r.pdf")
    assert refused.exit_code == 2
    assert "WIR270" in refused.output


def test_picture(tmp_path: Path) -> None:
    """The picture has a rectangle in the color of a storage, a frame for the pool, and the mark of the
    peak."""
    program = PlanMemory().run(random_program(random.Random(3), size=60))
    write_report(memory_report(program), tmp_path / "r.png")
    with Image.open(io.BytesIO((tmp_path / "r.png").read_bytes())) as image:
        assert image.size == (1400, 900)
        colors = {color for _, color in image.convert("RGB").getcolors(1 << 20) or ()}
    assert (0xD0, 0x30, 0x30) in colors
    assert len(colors) > 10


def test_a_picture_without_its_package(program_file: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from wrapper_ir_tools.cli.main import main\n"
        f"main(['memory', {str(program_file)!r}, '-o', {str(tmp_path / 'r.png')!r}])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "[WIR271]" in process.stderr
    assert "wrapper-ir-tools[report]" in process.stderr
    assert not (tmp_path / "r.png").exists()


def test_an_unknown_form(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="WIR270"):
        write_report(_report(RESIDUAL), tmp_path / "report")


def test_the_table_has_slots_and_not_their_pools() -> None:
    program = PlanMemory().run(random_program(random.Random(3), size=60))
    report = memory_report(program)
    buffers = read_csv(report_csv(report))
    kinds = {s.name: s.kind for s in report.functions[0].storages}
    assert {kinds[b.name] for b in buffers} <= {"allocation", "workspace", "slot", "result"}
    assert "slot" in {kinds[b.name] for b in buffers}


def test_placing_a_table(tmp_path: Path) -> None:
    table, placed = tmp_path / "buffers.csv", tmp_path / "placed.csv"
    table.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,8\nc,2,4,8\n")
    result = json.loads(_wir("memory", table, "--json").output)
    assert result == {"buffers": 3, "bound": 16, "heights": dict.fromkeys(("best-fit", "by-size", "by-area", "best"), 16)}  # fmt: skip
    assert "1.000 of the bound" in _wir("memory", table, "-o", placed).output
    rows = [line.split(",") for line in placed.read_text().splitlines()[1:]]
    check_placement(read_csv(placed.read_text()), {row[0]: int(row[-1]) for row in rows})
    assert peak_bytes(read_csv(placed.read_text())) == 16
