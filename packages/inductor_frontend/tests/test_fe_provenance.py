"""The provenance view of tlparse: Dynamo's graph, the lowered graph and emitted code, linked line by line."""

from __future__ import annotations

import html
import json
import logging
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch._logging._internal import TorchLogsFormatter, trace_log

from inductor_frontend import capture
from inductor_frontend.backend.provenance import provenance_of
from wrapper_ir_tools.explain import explain_artifact

TLPARSE = shutil.which("tlparse", path=sysconfig.get_path("scripts"))


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.mm(torch.relu(x), w), dim=1)


@contextmanager
def _traced(path: Path) -> Iterator[None]:
    """Writes the structured trace as `TORCH_TRACE` does."""
    handler = logging.FileHandler(path)
    handler.setFormatter(TorchLogsFormatter(trace=True))
    trace_log.addHandler(handler)
    try:
        yield
    finally:
        trace_log.removeHandler(handler)
        handler.close()


def _view(folder: Path, emitter: str) -> tuple[Mapping[str, Mapping[str, list[int]]], dict[str, list[str]]]:
    """Returns the links of the view by line, and the lines of its panes, for a graph that this emitter
    compiles."""
    torch._dynamo.reset()
    with _traced(folder / "trace.log"):
        function = torch.compile(model, backend="wrapper_ir", options={"cache": False, "emitter": emitter})
        function(torch.randn(4, 8), torch.randn(8, 8))
    assert TLPARSE is not None
    command = [TLPARSE, "-i", "--no-browser", "-o", str(folder / "out"), str(folder / "trace.log")]
    subprocess.run(command, check=True, capture_output=True)
    page = (folder / "out" / "provenance_tracking_-_0_0_0.html").read_text(encoding="utf-8")
    links = re.search(r'<script id="lineMappings" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert links is not None
    out = folder / "out" / "-_0_0_0"
    return json.loads(links[1]), {
        "pre": _lines(next(out.glob("before_pre_grad_graph_*.txt"))),
        "post": _lines(next(out.glob("inductor_post_grad_graph_*.txt"))),
        "code": _lines(next(out.glob("inductor_output_code_*.html"))),
    }


def _lines(path: Path) -> list[str]:
    """Returns lines as a browser renders them: without tags, and without a line break at the beginning."""
    text = re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8")) if path.suffix == ".html" else None
    content = path.read_text(encoding="utf-8") if text is None else html.unescape(text)
    return content.removeprefix("\n").split("\n")


@pytest.mark.skipif(TLPARSE is None, reason="tlparse is not installed here")
@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_lines_of_the_view_are_linked(tmp_path: Path, emitter: str) -> None:
    links, panes = _view(tmp_path, emitter)

    def linked(table: str, source: str, text: str, target: str) -> list[str]:
        """Returns the lines of the pane `target` that lines with this text in the pane `source` link to."""
        at = [str(n) for n, line in enumerate(panes[source], 1) if text in line]
        return [panes[target][n - 1].strip() for a in at for n in links[table].get(a, [])]

    (matmul,) = linked("preToPost", "pre", "torch.mm(", "post")
    assert "aten.mm.default" in matmul
    (back,) = linked("postToPre", "post", "aten.mm.default", "pre")
    assert "torch.mm(" in back
    (call,) = linked("postToPyCode", "post", "aten.mm.default", "code")
    assert re.search(r"\bmm|_mm_out|mm\(", call)
    (launch,) = linked("postToPyCode", "post", "aten.relu.default", "code")
    assert "cpp_fused_relu" in launch
    assert launch in {
        line.strip()
        for n, line in enumerate(panes["code"], 1)
        if any("aten.relu.default" in panes["post"][m - 1] for m in links["pyCodeToPost"].get(str(n), []))
    }


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_names_stand_before_the_lines_that_they_are_of(emitter: str) -> None:
    artifact = capture(model, (torch.randn(4, 8), torch.randn(8, 8)))
    explanation = explain_artifact(artifact, (emitter,))
    provenance = provenance_of(explanation, {"relu": ["relu_1"]}, "0/0 inference")
    mappings, stacks = json.loads(provenance.mappings), json.loads(provenance.stacks)
    assert mappings["preToPost"] == {"relu_1": ["relu"]}
    names = mappings["cppCodeToPost"]
    assert {"relu", "mm"} <= {node for nodes in names.values() for node in nodes}
    assert mappings["postToCppCode"]["mm"] == [n for n, nodes in names.items() if "mm" in nodes]
    lines = provenance.code.splitlines()
    (file,) = [f for f in explanation.files if f.name.startswith("program.")]
    for name in names:
        (at,) = [n for n, line in enumerate(lines) if name in line]
        assert name.partition(":")[0] in lines[at + 1]
        op = explanation.ops[file.lines[at + 1].op or 0]
        assert names[name] == list(op.nodes if op.kernel else op.nodes[:1])
        assert all(any(f"line {s.rpartition(':')[2]}" in x for x in stacks[name]) for s in op.sources)
    assert [line.split("  #")[0].split("  //")[0].rstrip() for line in lines[1:]] == [
        line.text.split("  #")[0].split("  //")[0].rstrip() for line in file.lines[1:]
    ]
    assert "# AOT ID: ['0/0 inference']" in lines[0]


def test_an_emitter_without_lines_has_graphs_linked_all_the_same() -> None:
    explanation = explain_artifact(capture(torch.relu, (torch.ones(2),)), ())
    provenance = provenance_of(explanation, {"relu": ["relu_1"]}, "0/0 inference")
    assert (provenance.code, provenance.stacks) == ("", "{}")
    assert json.loads(provenance.mappings)["postToPre"] == {"relu": ["relu_1"]}
