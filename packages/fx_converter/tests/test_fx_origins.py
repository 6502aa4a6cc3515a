"""Lines of graphs map to their ops; compiled graphs run from files in a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import fx_converter
from fx_converter import EMITTER, FxOptions
from fx_converter.compilers import Lowering
from fx_converter.emitter import FxEmitter
from fx_converter.errors import ConvertError
from tests.graphs.fake_graphs import fake_device
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.plugins.emitted import EmittedText, LineOrigin
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_tools.explain import ExplainOptions, Explanation, explain_program, find_ops

PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [0, 64] hint 8
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  call aten::add.out(%x, %x, alpha=1, out=%a)  #1
  %y = cond s0 > 4 then @large else @small (%a) : f32[s0]  #2
  free %a.s
  %z = call_subgraph @graph(%y) : f32[s0]
  drop %y
  return %z
}

func @large(%b: f32[s0]) captures(s0) {
  %r = call aten::relu(%b) : f32[s0]  #3
  return %r
}

func @small(%c: f32[s0]) captures(s0) {
  %r = call aten::neg(%c) : f32[s0]
  return %r
}

func @graph(%d: f32[s0]) captures(s0) replayable {
  %r = call aten::neg(%d) : f32[s0]  #4
  return %r
}

provenance
  #1 nodes("add") at("model.py:3")
  #2 nodes("cond") at("model.py:4")
  #3 nodes("relu") at("model.py:5")
  #4 nodes("neg") at("model.py:6")
"""
KERNEL = """wir 0.5
target cuda:0 arch "sm_90"

const %w : f32[4]
kernel triton @k entry "k" (write f32* y, i32 n)
  order(y, n, XBLOCK)
  configs({XBLOCK = 128} warps(4) stages(1))
  grid(ceildiv(n, XBLOCK))
  {{{
@triton.jit
def k(y, n, XBLOCK): pass
}}}

func @main(%x: f32[4]) {
  launch @k(%x, 4) extents(16)  #1
  copy %x, %w  #2
  return
}

provenance
  #1 at("model.py:7")
  #2 at("model.py:8")
"""
FILES = ("program.py", "functions/graph.py", "functions/large.py", "functions/small.py")


def _explained(artifact: Artifact, texts: tuple[EmittedText, ...]) -> Explanation:
    return explain_program(artifact, ExplainOptions(texts={"fx": texts}))


def _lines_of(explanation: Explanation, source: str) -> dict[str, list[str]]:
    """Returns the emitted lines of a source line, by file."""
    found = {f.name: [x.text for x in f.lines if source in x.sources] for f in explanation.files}
    return {name: lines for name, lines in found.items() if lines}


def test_lines_of_ops_in_the_graph_and_in_what_runs() -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    texts = EMITTER.emitted_texts(artifact)
    assert tuple(text.name for text in texts) == ("graph.py", *FILES)
    assert texts[0].text == EMITTER.emit(artifact).code
    explanation = _explained(artifact, texts)
    lines = [line for file in explanation.files for line in file.lines]
    assert all(not line.is_code or line.sources or line.reason for line in lines)
    adds = _lines_of(explanation, "model.py:3")
    assert sorted(adds) == ["graph.py", "program.py"]
    assert all(any("out=a)" in line for line in found) for found in adds.values())
    assert any("(b)" in line for line in _lines_of(explanation, "model.py:5")["functions/large.py"])
    assert any("(d)" in line for line in _lines_of(explanation, "model.py:6")["functions/graph.py"])
    (call,) = [x for x in explanation.files[1].lines if "out=a)" in x.text]
    assert [op.text for op in find_ops(explanation, f"program.py:{call.number}")] == [
        explanation.ops[call.op or 0].text
    ]


@pytest.mark.parametrize("form", ["direct", "hop"])
def test_nodes_name_their_op(form: Any) -> None:
    module = fx_converter.convert(bare_artifact(parse_program(PROGRAM)), FxOptions(kernel_calls=form))
    (add,) = [node for node in module.graph.nodes if "add" in node.meta.get("from_nodes", ())]
    assert add.meta["origin"] == LineOrigin(function="main", position=3)
    ((relu, *_),) = [
        [n for n in inner.graph.nodes if n.meta.get("from_nodes") == ("relu",)]
        for name, inner in module.named_children()
        if name == "large" and isinstance(inner, torch.fx.GraphModule)
    ]
    assert relu.meta["origin"] == LineOrigin(function="large", position=0)


def test_what_is_guarded_is_not_among_the_lines() -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    checked = EMITTER.emitted_texts(artifact)[1].text
    guarded = EMITTER.emitted_texts(artifact, ir.Guarded.all_inputs(artifact.program))[1].text
    assert "_inputs.match(" in checked
    assert "_inputs.match(" not in guarded


def test_kernels_and_constants_of_another_machine_are_not_loaded() -> None:
    def refused(kind: str) -> Any:
        raise AssertionError(kind)

    artifact = bare_artifact(
        parse_program(KERNEL), {"w": TensorData(dtype=ir.DType.F32, buffer=memoryview(bytes(16)))}
    )
    emitter = FxEmitter(options=FxOptions(find_runtime=refused, compilers={}))
    explanation = _explained(artifact, emitter.emitted_texts(artifact))
    (launch,) = _lines_of(explanation, "model.py:7")["program.py"]
    assert "_k(x, 4" in launch


def _visited(program: CompiledProgram, x: list[float]) -> tuple[list[float], set[str]]:
    """The result of a call, and the files of all code that it runs."""
    found: set[str] = set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        found.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        (result,) = program.boxed([torch.tensor(x)])
    finally:
        sys.settrace(before)
    return result.tolist(), found


def test_a_compiled_graph_and_its_functions_run_from_a_folder(tmp_path: Path) -> None:
    artifact = bare_artifact(parse_program(PROGRAM))
    with fake_device():
        program = EMITTER.compile(artifact)
    for folder in (tmp_path / "one", tmp_path / "two"):
        files = EMITTER.relocate(program, artifact, folder)
        texts = {folder / text.name: text.text for text in EMITTER.emitted_texts(artifact)[1:]}
        assert tuple(str(path.relative_to(folder)) for path in files) == FILES
        assert {path: path.read_text(encoding="utf-8") for path in files} == texts
        for x, want, called in (
            ([1.0, -1.0], [2.0, -2.0], "small"),
            ([1.0, -1.0, 2.0, 3.0, 4.0], [-2.0, 0.0, -4.0, -6.0, -8.0], "large"),
        ):
            result, visited = _visited(program, x)
            assert result == want
            wanted = ("program.py", "functions/graph.py", f"functions/{called}.py")
            assert {str(folder / name) for name in wanted} <= visited


def test_what_another_compiler_made_is_refused(tmp_path: Path) -> None:
    class Compiler:
        def __init__(self) -> None:
            self.name = "handed over"
            self.lowerings: Mapping[type[ir.OpBase], Lowering] = {}

        def compile_graph(self, module: torch.fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
            return module

    artifact = bare_artifact(parse_program(PROGRAM))
    emitter = FxEmitter(options=FxOptions(compilers={"cpu": Compiler()}))
    assert [text.name for text in emitter.emitted_texts(artifact)] == ["graph.py"]
    with pytest.raises(ConvertError, match="FX107"):
        emitter.relocate(emitter.compile(artifact), artifact, tmp_path)
