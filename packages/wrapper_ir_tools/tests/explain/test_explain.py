"""Explanations of short programs: links in both directions, JSON and its schema, the command."""

from __future__ import annotations

import dataclasses
import json
import random
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from packages.wrapper_ir_tools.tests.explain.explained_programs import HEAD, LAYER, artifact_of, explained

from wrapper_ir import ir, parse_program, save
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.sources import SOURCES
from wrapper_ir.errors import ReportError
from wrapper_ir.plugins.emitted import EmittedText, LineOrigin, OpOrigins
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_tools.cli.main import main
from wrapper_ir_tools.explain import (
    ExplainOptions,
    Explanation,
    Lead,
    explain_artifact,
    explain_program,
    explanation_json,
    explanation_text,
    find_ops,
    line_share,
    ops_by_source,
    share_text,
)
from wrapper_ir_tools.testing import random_program

SCHEMA = Draft202012Validator(
    json.loads((files("wrapper_ir_tools") / "schema" / "explain.schema.json").read_text(encoding="utf-8"))
)


def _leads(explanation: Explanation) -> list[str]:
    return [
        f"{op.kind} {op.lead.value} {' '.join(op.sources)}{f': {op.reason}' if op.reason else ''}"
        for op in explanation.ops
    ]


def test_each_op_has_its_lines_or_those_of_the_op_that_it_serves() -> None:
    assert _leads(explained(LAYER)) == [
        "AssertLayout value model.py:3: check of %x, which op 3 is the first to use",
        "AllocStorage value model.py:3: memory of %a.s, which op 3 is the first to use",
        "View value model.py:3: a view of %a, which op 3 is the first to use",
        "CallExtern own model.py:3",
        "AllocStorage value model.py:4 model.py:5: memory of %b.s, which op 6 is the first to use",
        "View value model.py:4 model.py:5: a view of %b, which op 6 is the first to use",
        "Launch own model.py:4 model.py:5",
        "Free value model.py:3: end of %a.s, from op 1",
        "Free none : end of %saved: no source line was recorded",
        "Return value model.py:4 model.py:5: result %b, from op 5",
    ]


def test_a_saved_tensor_leads_to_the_forward_line() -> None:
    result = explained(LAYER, saved={"saved": ("model.py:1",)})
    assert result.ops[8].lead is Lead.FORWARD
    assert (result.ops[8].sources, result.ops[8].reason) == (
        ("model.py:1",),
        "end of %saved, which the forward graph saved",
    )


def test_symbols_lead_to_what_uses_them() -> None:
    head = HEAD.replace("target cpu\n", "target cpu\n\nsymbol s0 : int backed [2, 64] hint 8\n")
    body = """func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  assert s0 <= 32 "small"
  %a = alloc f32[s0]
  launch @relu(%x, %a) extents(4*s0, 4*s0)  #1
  return %a
}

provenance
  #1 at("model.py:9")
"""
    result = explain_program(artifact_of(body, head))
    assert _leads(result)[:2] == [
        "Define value model.py:9: value of s0, which op 4 is the first to use",
        "AssertExpr value model.py:9: check of s0, from op 0",
    ]


def test_a_call_leads_to_the_lines_of_its_function() -> None:
    result = explained(
        """func @main(%x: f32[8]) {
  %r = call_subgraph @inner(%x) : f32[8]
  return %r
}

func @inner(%x: f32[8]) {
  %a = alloc f32[8]
  launch @relu(%x, %a)  #1
  return %a
}

provenance
  #1 at("model.py:2")
"""
    )
    assert _leads(result)[:2] == [
        "CallSubgraph value model.py:2: calls @inner",
        "Return value model.py:2: result %r, from op 0",
    ]
    assert [op.function for op in result.ops] == ["main"] * 2 + ["inner"] * 4


def test_a_program_without_provenance_says_so_for_each_op() -> None:
    result = explained(LAYER.partition("\nprovenance")[0].replace("  #1", "").replace("  #2", "") + "\n")
    assert all(op.lead is Lead.NONE and op.reason and not op.sources for op in result.ops)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_are_explained_whole(seed: int) -> None:
    program = random_program(random.Random(seed))
    result = explain_program(bare_artifact(program))
    assert len(result.ops) == sum(len(f.body) for f in program.functions)
    assert all(op.sources or op.reason for op in result.ops)
    SCHEMA.validate(json.loads(explanation_json(result)))


# --- both ways


def _with_lines() -> Explanation:
    text = "import torch\n\nk = load()\nadd(x, w, out=a)\nk(a, b)\n"
    origins = (
        LineOrigin(note="imports"),
        None,
        LineOrigin(kernel="relu", note="loads a kernel"),
        LineOrigin(function="main", position=3),
        LineOrigin(function="main", position=6),
    )
    return explained(
        LAYER, texts={"python": [EmittedText(name="program.py", text=text, origins=origins)]}, name="layer"
    )


@pytest.mark.parametrize(
    ("query", "ops"),
    [
        ("model.py:4", [4, 5, 6, 9]),
        ("program.py:4", [3]),
        ("program.py:3", [6]),
        ("program.py:4-5", [3, 6]),
        ("op:2", [2]),
        ("@relu", [6]),
        ("@main", list(range(10))),
        ("%b", [5]),
        ("add", [3]),
        ("aten.relu.default", [6]),
        ("aten::add.out", [3]),
        ("first", [3]),
    ],
)
def test_from_any_thing_to_its_ops(query: str, ops: list[int]) -> None:
    assert [op.index for op in find_ops(_with_lines(), query)] == ops


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ReportError, match=r"WIR272.*nothing in layer is 'model.py:400'"):
        find_ops(_with_lines(), "model.py:400")


def test_from_a_source_line_to_all_below() -> None:
    result = ops_by_source(_with_lines())
    assert [op.index for op in result["model.py:3"]] == [0, 1, 2, 3, 7]
    assert [op.index for op in result[""]] == [8]


def test_lines_have_the_sources_of_op_or_kernel_or_a_reason() -> None:
    (file,) = _with_lines().files
    assert [(line.op, line.sources, line.reason, line.is_code) for line in file.lines] == [
        (None, (), "imports", True),
        (None, (), "", False),
        (None, ("model.py:4", "model.py:5"), "loads a kernel", True),
        (3, ("model.py:3",), "", True),
        (6, ("model.py:4", "model.py:5"), "", True),
    ]


def test_share_of_lines() -> None:
    share = line_share([_with_lines()])
    assert (share.lines, share.led, share.explained, share.op_lines, share.op_led) == (4, 3, 1, 2, 2)
    assert (share.share, share.op_share, dict(share.reasons)) == (1.0, 1.0, {"imports": 1})
    assert "share that leads to a source line or says why not    100.0%" in share_text(share)


def test_a_line_of_unknown_origin_lowers_the_share() -> None:
    text = EmittedText(name="p.py", text="a\nb\n", origins=(LineOrigin(note="imports"), LineOrigin()))
    share = line_share([explained(LAYER, texts={"python": [text]})])
    assert share.share == 0.5


def test_origins_of_ops_that_lowering_adds() -> None:
    head = HEAD.replace("target cpu\n", "target cpu\n\nsymbol s0 : int backed [2, 64] hint 8\n")
    program = parse_program(
        head
        + """func @main(%x: f32[64], %n: int) {
  define s0 = item(%n)
  %v = view %x : f32[s0]
  return %v
}
"""
    )
    lowered = insert_checks(program)
    assert len(lowered.main.body) > len(program.main.body)
    origins = OpOrigins(program, lowered)
    result = [origins.of("main", at) for at in range(len(lowered.main.body))]
    assert [o.position for o in result if not o.note] == [0, 1, 2]
    assert {o.note for o in result} == {"", "added by lowering, before this op"}


# --- forms and the command


class _Refusing:
    """An emitter that raises its own class of error."""

    def emitted_texts(
        self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED
    ) -> tuple[EmittedText, ...]:
        raise RuntimeError(f"no way to write {len(artifact.program.main.body)} ops")


def test_what_an_emitter_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wrapper_ir_tools.explain.emitters.emitter", lambda name: _Refusing())
    result = explain_artifact(artifact_of(LAYER), ("odd",))
    assert result.lacks == ("lines of emitter odd: no way to write 10 ops",)
    assert len(result.ops) == 10


def test_text() -> None:
    artifact = dataclasses.replace(
        artifact_of(LAYER), extensions={SOURCES: '{"model.py:3": "y = x + self.w"}'}
    )
    result = explain_program(artifact, ExplainOptions(lacks=("lines of emitter x: none",)))
    assert explanation_text(result, [result.ops[3]]) == (
        "model.py:3  y = x + self.w\n"
        "  op 3 @main: call aten::add.out(%x, %w, alpha=1, out=%a)\n"
        "    nodes add\n"
        "    operators aten.add.Tensor\n"
        "    modules first\n"
        "\n"
        "aten::add.out (op 3): an operator of a library: no other way was offered\n"
        "op 3 writes %a: new memory\n"
        "    %x: operator aten::add.out may read it after it has begun to write\n"
        "    %w: operator aten::add.out may read it after it has begun to write\n"
        "not here: lines of emitter x: none\n"
    )


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "layer.txt"
    path.write_text(HEAD + LAYER, encoding="utf-8")
    run = CliRunner().invoke
    result = run(main, ["explain", str(path), "--emitter", "none", "--of", "%b"])
    assert (result.exit_code, result.output.splitlines()[:2]) == (
        0,
        ["model.py:4", "  op 5 @main: %b = view %b.s : f32[8]"],
    )
    data = json.loads(run(main, ["explain", str(path), "--emitter", "none", "--json"]).output)
    SCHEMA.validate(data)
    assert data["name"] == "layer"
    lacking = run(main, ["explain", str(path), "--emitter", "nowhere"]).output
    assert "not here: lines of emitter nowhere: [WIR901]" in lacking
    refused = run(main, ["explain", str(path), "--emitter", "none", "--of", "nothing"])
    assert (refused.exit_code, "WIR272" in refused.output) == (2, True)


def test_command_on_an_artifact_alone(tmp_path: Path) -> None:
    path = tmp_path / "layer.wir"
    program = parse_program(HEAD.replace("const %w : f32[8]\n", "") + LAYER.replace("%w", "%x"))
    save(
        dataclasses.replace(bare_artifact(program), extensions={SOURCES: '{"model.py:3": "y = x + x"}'}), path
    )
    result = CliRunner().invoke(main, ["explain", str(path), "--emitter", "none"])
    assert result.output.splitlines()[0] == "model.py:3  y = x + x"
