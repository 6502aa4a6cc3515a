"""Dumps of compilations: files of new, earlier and cached compilations, their paths, and breakpoints in
them."""

from __future__ import annotations

import bdb
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.explained_model import BREAK_LINE, TwoParts
from torch import Tensor

from inductor_frontend import dump_compilation
from inductor_frontend.errors import BackendError
from inductor_frontend.settings import DUMP_FOLDER, dump_folder
from wrapper_ir import load, parse_program, print_program

GRAPHS = [f"{function}/{kind}" for function in ("0_0", "1_0") for kind in ("forward", "backward")]
FILES = ("aot_graph.py", "explanation.json", "explanation.txt", "graph.wir", "program.txt", "code/program.py")
VARYING = ("graph.json", "graph.wir", "guards.txt", "bytecode.txt")
"""Files with the id of a process, or of its objects."""


def _step(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    torch.autograd.backward(function(torch.randn(8, 16)).sum())


def _texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in VARYING
    }


def _notes(folder: Path) -> list[Mapping[str, Any]]:  # Any: JSON
    return [json.loads((folder / graph / "graph.json").read_text(encoding="utf-8")) for graph in GRAPHS]


@pytest.mark.slow
def test_the_tree_is_the_same_now_before_and_out_of_the_cache(tmp_path: Path) -> None:
    model, cache = TwoParts(), str(tmp_path / "cache")
    model.norm.eval()

    def compiled() -> Callable[[Tensor], Tensor]:
        torch._dynamo.reset()
        return torch.compile(model, backend="wrapper_ir", options={"cache": cache})

    function = compiled()
    with dump_compilation(tmp_path / "now") as now:
        _step(function)
    with dump_compilation(tmp_path / "before") as before:
        pass
    function = compiled()
    with dump_compilation(tmp_path / "cached") as cached:
        _step(function)
    for graph in GRAPHS:
        assert all((now / graph / name).is_file() for name in FILES), graph
        load(now / graph / "graph.wir")
    assert not any(notes["from_cache"] for notes in _notes(now) + _notes(before))
    assert all(notes["from_cache"] for notes in _notes(cached))
    assert _texts(now) == _texts(before) == _texts(cached)
    assert "softmax" in (now / "1_0" / "dynamo_graph.py").read_text(encoding="utf-8")
    for name, text in (("guards.txt", "TREE_GUARD_MANAGER"), ("bytecode.txt", "__compiled_fn_")):
        assert text in (now / "0_0" / name).read_text(encoding="utf-8")
    assert f"explained_model.py:{BREAK_LINE}" in (now / "graph_breaks.txt").read_text(encoding="utf-8")


class _Stops(bdb.Bdb):
    """Runs a function, and records the positions where it stopped."""

    def __init__(self, places: Mapping[Path, int]) -> None:
        super().__init__()
        self.stops: set[tuple[str, int]] = set()
        for path, line in places.items():
            assert self.set_break(str(path), line) is None

    def user_line(self, frame: FrameType) -> None:
        """Continues to the next breakpoint."""
        if self.break_here(frame):
            self.stops.add((frame.f_code.co_filename, frame.f_lineno))
        self.set_continue()


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx"])
@pytest.mark.parametrize("when", ["now", "before", "cached"])
def test_breakpoints_are_hit(tmp_path: Path, when: str, emitter: str) -> None:
    model, cache = TwoParts(), str(tmp_path / "cache")
    model.norm.eval()

    def compiled() -> Callable[[Tensor], Tensor]:
        torch._dynamo.reset()
        return torch.compile(model, backend="wrapper_ir", options={"cache": cache, "emitter": emitter})

    function = compiled()
    if when != "now":
        _step(function)
    if when == "cached":
        function = compiled()
    with dump_compilation(tmp_path / "dump") as folder:
        if when != "before":
            _step(function)
    assert all(notes["from_cache"] == (when == "cached") for notes in _notes(folder))
    assert all(notes["runs_from_here"] for notes in _notes(folder))
    places = {}
    for graph in ("0_0/forward", "1_0/forward"):
        path = folder / graph / "code" / "program.py"
        lines = path.read_text(encoding="utf-8").splitlines()
        places[path] = next(n for n, line in enumerate(lines, 1) if line.startswith("    return ("))
    debugger = _Stops(places)
    x = torch.randn(8, 16)
    debugger.runcall(function, x)
    assert debugger.stops == {(str(path), line) for path, line in places.items()}
    for graph in GRAPHS:
        _explains_its_files(folder / graph)


@pytest.mark.conformance
def test_c_plus_plus_runs_from_the_folder(tmp_path: Path) -> None:
    """The lines that debuggers show are tested in cpp_wrapper."""
    torch._dynamo.reset()
    function = torch.compile(torch.mm, backend="wrapper_ir", options={"cache": False, "emitter": "cpp"})
    x = torch.randn(4, 4)
    before = function(x, x)
    with dump_compilation(tmp_path) as folder:
        pass
    own = folder / "0_0" / "inference"
    assert json.loads((own / "graph.json").read_text(encoding="utf-8"))["runs_from_here"]
    _explains_its_files(own)
    (library,) = (own / "code").glob("program-*.so")
    assert str(library) in Path("/proc/self/maps").read_text()
    assert torch.equal(function(x, x), before)


def _explains_its_files(graph: Path) -> None:
    """The lines in an explanation are those of the files beside it, each with its op."""
    explanation = json.loads((graph / "explanation.json").read_text(encoding="utf-8"))
    assert not explanation["lacks"]
    for file in explanation["files"]:
        text = (graph / "code" / file["name"]).read_text(encoding="utf-8")
        assert text.splitlines() == [line["text"] for line in file["lines"]]
    assert any(line["op"] is not None for file in explanation["files"] for line in file["lines"])


@pytest.mark.slow
def test_passes_are_stages(tmp_path: Path) -> None:
    torch._dynamo.reset()
    passes = "reuse-in-place,plan-memory"
    function = torch.compile(TwoParts(), backend="wrapper_ir", options={"cache": False, "passes": passes})
    with dump_compilation(tmp_path) as folder:
        _step(function)
    own = folder / "0_0" / "backward"
    stages = sorted((own / "programs").iterdir())
    assert [path.name for path in stages] == [
        "00_captured.txt",
        "01_move-arguments.txt",
        "02_reuse-in-place.txt",
        "03_plan-memory.txt",
    ]
    final = (own / "program.txt").read_text(encoding="utf-8")
    assert stages[-1].read_text(encoding="utf-8") == final == print_program(parse_program(final))
    assert stages[0].read_text(encoding="utf-8") != final


def test_graphs_of_one_function_have_folders_of_their_own(tmp_path: Path) -> None:
    torch._dynamo.reset()
    first = torch.compile(torch.sin, backend="wrapper_ir", options={"cache": False})
    second = torch.compile(torch.sin, backend="wrapper_ir", options={"cache": False, "emitter": "fx"})
    with dump_compilation(tmp_path) as folder:
        first(torch.ones(3))
        second(torch.ones(3))
    with dump_compilation(tmp_path):  # again: the folders stay what they are
        pass
    folders = {
        json.loads(path.read_text(encoding="utf-8"))["emitter"]: path for path in folder.rglob("graph.json")
    }
    assert sorted(folders) == ["fx", "python"]
    assert len({*folder.rglob("graph.json")}) == 2
    assert any((folders["fx"].parent / "code").iterdir())


def test_code_that_inductor_compiled_runs_from_the_folder(tmp_path: Path) -> None:
    torch._dynamo.reset()
    function = torch.compile(lambda x: x.cos() + 1.171875, backend="inductor")  # of no other test
    function(torch.ones(5))
    with dump_compilation(tmp_path) as folder:
        pass
    (path,) = [p for p in (folder / "inductor").iterdir() if "1.171875" in p.read_text(encoding="utf-8")]
    lines = path.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith("return (buf"))
    debugger = _Stops({path: line})
    result = debugger.runcall(function, torch.ones(5))
    assert debugger.stops == {(str(path), line)}
    torch.testing.assert_close(result, torch.ones(5).cos() + 1.171875)


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DUMP_FOLDER, str(tmp_path / "whole_process"))
    with dump_compilation(tmp_path / "block") as folder:
        assert folder == tmp_path / "block"
    assert os.environ[DUMP_FOLDER] == str(tmp_path / "whole_process")
    assert dump_folder({DUMP_FOLDER: "x", "RANK": "3"}) == Path("x") / "rank_3"
    assert dump_folder({}) is None
    torch._dynamo.reset()
    torch.compile(torch.cos, backend="wrapper_ir", options={"cache": False})(torch.ones(2))
    assert [*(tmp_path / "whole_process").rglob("program.txt")]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    torch._dynamo.reset()
    function = torch.compile(torch.tan, backend="wrapper_ir", options={"cache": False})
    function(torch.ones(2))
    with pytest.raises(BackendError, match="FE404"), dump_compilation(path):
        pass
    assert DUMP_FOLDER not in os.environ
