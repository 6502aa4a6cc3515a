"""The data of a page: lines, data flow, groups of modules, kernels, memory, sources."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
from packages.wrapper_ir_tools.tests.view.view_samples import sample_program, write_source

from wrapper_ir import parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.text import print_function, print_lines
from wrapper_ir_tools.report import memory_report
from wrapper_ir_tools.testing import random_program
from wrapper_ir_tools.view import FunctionView, SourceOptions, ViewOptions, view_json, view_program
from wrapper_ir_tools.view.modules import module_groups, module_path
from wrapper_ir_tools.view.sources import read_sources

NO_SOURCE = SourceOptions(read=False)


def _main() -> FunctionView:
    return view_program(sample_program(), ViewOptions(sources=NO_SOURCE)).functions[0]


def _lines(view: FunctionView) -> str:
    """Each line with ops, its op range and its values."""
    result = []
    for row in view.rows:
        if row.first >= 0:
            values = ", ".join(f"{v.name} {v.role.value}" for v in row.values)
            result.append(f"{row.first}-{row.stop - 1} {row.op}: {values}")
    return "\n".join(result)


def test_lines_say_their_ops_and_what_they_do_with_values() -> None:
    assert _lines(_main()) == (
        "0-1 AllocStorage: a.s defines, a defines\n"
        "2-2 Launch: x reads, a writes\n"
        "3-4 AllocStorage: b.s defines, b defines\n"
        "5-5 Launch: a reads, b writes\n"
        "6-6 Free: a.s ends\n"
        "7-7 View: c defines, b uses\n"
        "8-8 Launch: c reads and writes\n"
        "9-9 CallExtern: d defines, b reads, w reads\n"
        "10-10 Free: b.s ends\n"
        "11-11 Switch: e defines, p reads, d reads\n"
        "12-12 Free: d ends\n"
        "13-13 Return: e ends"
    )


def test_lines_are_those_of_the_text() -> None:
    for seed in range(8):
        program = random_program(random.Random(seed), size=30)
        for function in program.functions:
            lines = print_lines(function, program)
            assert "\n".join(line.text for line in lines) == print_function(function, program)
            assert [op for line in lines for op in range(line.first, line.stop)] == list(
                range(len(function.body))
            )


def test_data_flows_through_memory() -> None:
    """The source of a line's data is the line that last wrote the storage, under any name."""
    view = _main()
    text = {n: f"{row.first}" if row.first >= 0 else "header" for n, row in enumerate(view.rows)} | {
        -1: "constant"
    }
    flow = {f"{text[e.source]} -{e.value}-> {text[e.target]}" for e in view.edges}
    assert {
        "header -x-> 2",
        "2 -a-> 5",
        "5 -c-> 8",
        "8 -b-> 9",
        "constant -w-> 9",
        "9 -d-> 11",
        "11 -e-> 13",
    } <= flow
    # the launch at 8 overwrote it through a view
    assert "5 -b-> 9" not in flow
    # the definitions of memory that is only written
    assert {"0 -a-> 2", "3 -b-> 5"} <= flow


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ([], ""),
        (["encoder.layer.0"], "encoder.layer.0"),
        (["encoder.layer.0", "encoder.layer.1"], "encoder.layer"),
        (["encoder.layer.1", "encoder.layer.10"], "encoder.layer"),
        (["a", "b"], ""),
        (["", "a.b"], "a.b"),
    ],
)
def test_the_module_of_several(modules: list[str], expected: str) -> None:
    assert ".".join(module_path(modules)) == expected


def test_groups_nest_and_join_what_holds_the_same_lines() -> None:
    paths = [None, "e.l.0.q", None, "e.l.0.k", "e.l.0.k", "e.l.1", "head", None]
    groups = module_groups([None if p is None else tuple(p.split(".")) for p in paths], 10)
    visible = [f"{'  ' * g.depth}{g.name} {g.start}-{g.stop - 1}" for g in groups]
    assert visible == ["e.l 11-15", "  0 11-14", "    q 11-12", "    k 13-14", "head 16-17"]


def test_groups_of_random_paths_are_nested_runs() -> None:
    rng = random.Random(3)
    for _ in range(200):
        paths = [tuple(rng.choice("ab") for _ in range(rng.randrange(4))) for _ in range(rng.randrange(12))]
        groups = module_groups(paths)
        for n, group in enumerate(groups):
            assert 0 <= group.start < group.stop - 1 < len(paths)
            outer = [g for g in groups[:n] if g.start <= group.start < g.stop]
            assert group.depth == len(outer)
            assert all(group.stop <= g.stop for g in outer)
            prefix = tuple(".".join([*(g.name for g in outer), group.name]).split("."))
            assert all(path[: len(prefix)] == prefix for path in paths[group.start : group.stop])


def test_groups_of_the_program() -> None:
    visible = [(g.name, [_main().rows[n].first for n in range(g.start, g.stop)]) for g in _main().groups]
    assert visible == [("encoder.layer", [2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13]), ("0", [2, 3, 5, 6, 7]), ("1", [8, 9, 10, 11, 12, 13]), ("norm", [9, 10, 11, 12, 13])]  # fmt: skip


def test_kernels_and_launches() -> None:
    view = view_program(sample_program(), ViewOptions(sources=NO_SOURCE))
    first, second, _ = view.kernels
    assert (first.name, first.kind, first.params) == ("k", "cpp", ("read f32* src", "write f32* dst"))
    assert first.source.startswith('extern "C" void k(')
    assert first.declaration == 'kernel cpp @k entry "k" (read f32* src, write f32* dst)'
    assert second.params == ("readwrite f32* data", "i64 count")
    launch = next(row for row in view.functions[0].rows if row.first == 8)
    assert (launch.kernel, launch.args, launch.extents) == ("twice", ("%c", "64"), ("256",))
    call = next(row for row in view.functions[0].rows if row.first == 9)
    assert (call.kernel, call.args) == ("aten::add", ("%b", "%w"))
    assert dict(view.operators)["aten::add"].startswith('extern "aten::add(')
    assert dict(view.constants)["w"].startswith("const %w : f32[64] parameter")
    assert next(row for row in view.functions[0].rows if row.first == 11).calls == ("branch", "branch")


def test_declarations_of_all_kinds_of_kernels() -> None:
    kinds = set()
    for seed in range(8):
        program = random_program(random.Random(seed), size=40)
        text = print_program(program)
        for kernel in view_program(program, ViewOptions(sources=NO_SOURCE)).kernels:
            kinds.add(kernel.kind)
            assert f"\n{kernel.declaration}" in text
            assert "{{{" not in kernel.declaration.splitlines()[-1]
            assert kernel.source in text
            assert len(kernel.params) == len(program.kernel(kernel.name).params)
    assert {"cpp", "triton"} <= kinds


def test_memory_is_that_of_the_report() -> None:
    report = memory_report(sample_program())
    for mine, theirs in zip(view_program(sample_program()).functions, report.functions, strict=True):
        assert mine.memory is not None
        assert (mine.memory.held, mine.memory.peak_op) == (theirs.held, theirs.peak_op)
        assert [(s.name, s.begin, s.end, s.address) for s in mine.memory.storages] == [(s.name, s.begin, s.end, s.address) for s in theirs.storages]  # fmt: skip


def test_what_memory_rests_on_is_said() -> None:
    text = (
        "wir 0.5\ntarget cpu\nsymbol s : int backed [2, 8]\nfunc @main(%x: f32[s]) {\n  define s = "
        "size(%x, 0)\n  %y = alloc f32[s]\n  free %y.s\n  drop %x\n  return\n}\n"
    )
    notes = view_program(parse_program(text)).notes
    assert notes == (
        "memory is shown for the smallest values of symbols without hint (s): --hint gives others",
    )
    assert view_program(parse_program(text), ViewOptions(hints={"s": 4})).notes == ()


def test_facts_of_an_artifact() -> None:
    artifact = bare_artifact(sample_program())
    view = view_program(artifact, ViewOptions(title="m"))
    assert dict(view.facts) | {"kernels": "3", "launches": "4", "operator calls": "1"} == dict(view.facts)
    assert view.title == "m"
    assert "target cpu" in view.declarations
    assert "symbol n" in view.declarations


def test_sources_near_the_places(tmp_path: Path) -> None:
    write_source(tmp_path)
    view = view_program(sample_program(), ViewOptions(sources=SourceOptions(roots=(tmp_path,))))
    (source,) = view.sources
    assert (source.name, source.path, source.missing) == ("model.py", str(tmp_path / "model.py"), "")
    assert source.segments[0].lines[1] == "    y = x + 1"


def test_pieces_of_a_long_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("\n".join(f"line {n}" for n in range(1, 3001)))
    (source,) = read_sources(
        ["m.py:5", "m.py:300", "m.py:2000", "m.py:9999"], SourceOptions(roots=(tmp_path,))
    )
    assert [(s.first, s.first + len(s.lines) - 1) for s in source.segments] == [(1, 500), (1800, 2200)]
    assert all(s.lines[0] == f"line {s.first}" for s in source.segments)


def test_sources_that_are_not_there_or_not_shown(tmp_path: Path) -> None:
    """A program from another party cannot make a page read files other than Python sources."""
    secret = tmp_path / "secret"
    secret.write_text("key")
    odd = tmp_path / "odd.py"
    odd.write_bytes(b"\xff\xfe")
    places = [f"{secret}:1", "gone.py:3", "no\0name.py:1", f"{odd}:1", "plain"]
    result = {s.name: s.missing for s in read_sources(places, SourceOptions(roots=(tmp_path,)))}
    assert result[str(secret)] == result["plain"] == "not a Python file"
    assert result["gone.py"] == result["no\0name.py"] == "not found in any source folder"
    assert result[str(odd)].startswith("cannot be read: ")
    assert {s.missing for s in read_sources(places, NO_SOURCE)} == {"left out"}


def test_every_op_has_its_line_in_random_programs() -> None:
    """All families of ops serialize, and data flows to later lines that use the value."""
    for seed in range(6):
        program = random_program(random.Random(seed), size=40)
        assert parse_program(print_program(program)) == program
        view = view_program(program, ViewOptions(sources=NO_SOURCE))
        for function, result in zip(program.functions, view.functions, strict=True):
            assert sum(row.stop - row.first for row in result.rows if row.first >= 0) == len(function.body)
            for edge in result.edges:
                assert edge.source < edge.target
                assert edge.value in {v.name for v in result.rows[edge.target].values}
        data = json.loads(view_json(view))
        assert len(data["programs"][0]["functions"]) == len(program.functions)


def test_lines_that_serve_others_say_which() -> None:
    rows = {row.first: row for row in _main().rows}
    # it has its own source line
    assert (rows[2].serves, rows[2].reason) == ((), "")
    assert rows[0].serves == ("model.py:2",)
    assert rows[0].reason.startswith("memory of ")


def test_text_that_was_kept_at_the_capture(tmp_path: Path) -> None:
    write_source(tmp_path)
    artifact = dataclasses.replace(
        bare_artifact(sample_program()),
        extensions={
            "sources.json": json.dumps(
                {"model.py:2": "y = x + 1", "model.py:3": "return y", "other.py:1": "-"}
            )
        },
    )
    (there,) = view_program(artifact, ViewOptions(sources=SourceOptions(roots=(tmp_path,)))).sources
    assert there.recorded == ((2, "y = x + 1"), (3, "return y"))
    # the file has `return y + w` now
    assert there.changed == (3,)
    (missing,) = view_program(artifact, ViewOptions(sources=NO_SOURCE)).sources
    assert (missing.recorded, missing.changed) == (there.recorded, ())
