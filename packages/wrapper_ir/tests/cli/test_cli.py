"""The `wir` command: output, exit status, and errors for the person at the keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wrapper_ir import load, parse_program, save
from wrapper_ir.artifact import Artifact
from wrapper_ir.cli import main
from wrapper_ir.signature import ResultOutput, Signature, TreeKind, TreeSpec

TEXT = """\
wir 0.2
target cpu

symbol s0 : int backed [2, 1024] hint 8

extern "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 4]
  call aten::relu.out(%x, out=%y)
  %z = alloc f32[s0, 4]
  call aten::relu.out(%y, out=%z)
  free %y.s
  drop %x
  return %z
}
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "p.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    leaf = TreeSpec(kind=TreeKind.LEAF)
    args = TreeSpec(kind=TreeKind.TUPLE, children=(leaf,))
    signature = Signature(
        inputs=TreeSpec(kind=TreeKind.TUPLE, children=(args, TreeSpec(kind=TreeKind.DICT))),
        params=(0,),
        outputs=leaf,
        bindings=(ResultOutput(index=0),),
        names=("x",),
    )
    path = tmp_path / "m.wir"
    save(Artifact(program=parse_program(TEXT), signature=signature), path)
    return path


def wir(*args: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args], input=stdin)


def test_print_text_json_and_artifact(text: Path, artifact: Path, tmp_path: Path) -> None:
    assert wir("print", text).output == TEXT
    assert wir("print", artifact).output == TEXT
    assert wir("print", "-", stdin=TEXT).output == TEXT
    as_json = tmp_path / "p.json"
    as_json.write_text(wir("print", "--json", text).output)
    assert wir("print", as_json).output == TEXT
    assert wir("print", "--head", "2", text).output == "wir 0.2\ntarget cpu\n"


def test_verify(text: Path, tmp_path: Path) -> None:
    assert wir("verify", text).output == "ok: 10 ops, 2 check(s) at run time\n"
    bad = tmp_path / "bad.txt"
    bad.write_text(TEXT.replace("  free %y.s\n", "  free %y.s\n  free %y.s\n"))
    done = wir("verify", bad)
    assert done.exit_code == 1
    assert "[WIR0" in done.output
    assert "finding(s)" in done.output


def test_stats(text: Path) -> None:
    done = wir("stats", text, "--hint", "s0=16")
    assert done.exit_code == 0, done.output
    rows = dict(line.rsplit(maxsplit=1) for line in done.output.splitlines() if line.strip())
    joined = " ".join(f"{k}={v}" for k, v in rows.items())
    assert "512" in joined, joined  # two buffers of 16 x 4 floats


def test_stats_wants_numbers(text: Path) -> None:
    assert wir("stats", text, "--hint", "s0=many").exit_code == 2


def test_diff(text: Path, tmp_path: Path) -> None:
    assert wir("diff", text, text).exit_code == 0
    renamed = tmp_path / "renamed.txt"
    renamed.write_text(TEXT.replace("%y", "%other"))
    assert wir("diff", text, renamed).exit_code == 0
    assert wir("diff", "--names", text, renamed).exit_code == 1
    changed = tmp_path / "changed.txt"
    changed.write_text(TEXT.replace("  free %y.s\n", ""))
    done = wir("diff", text, changed)
    assert done.exit_code == 1
    assert [x for x in done.output.splitlines() if x.startswith("-  free")]


def test_opt(text: Path, artifact: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.txt"
    bare.write_text(TEXT.replace("  free %y.s\n", "").replace("  drop %x\n", ""))
    done = wir("opt", text, "--pass", "derive-frees")
    assert done.exit_code == 0, done.output
    assert "free %y.s" in done.output
    out = tmp_path / "out.wir"
    assert wir("opt", artifact, "--pass", "insert-finite-checks", "-o", out).exit_code == 0
    assert load(out).program.main.name == "main"
    assert "derive-frees" in wir("opt", "--list", text).output


def test_unknown_pass(text: Path) -> None:
    done = wir("opt", text, "--pass", "nonsense")
    assert done.exit_code == 2
    assert "WIR8" in done.output


def test_emit_needs_an_installed_emitter(artifact: Path, tmp_path: Path) -> None:
    done = wir("emit", artifact, "--to", "nonsense", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "WIR901" in done.output


@pytest.mark.parametrize("command", ["print", "verify", "stats"])
def test_unreadable_files(command: str, tmp_path: Path) -> None:
    done = wir(command, tmp_path / "absent")
    assert done.exit_code == 2
    assert "WIR702" in done.output
    broken = tmp_path / "broken"
    broken.write_text("wir 0.2\nfunc @main(%x: f99[8]) {\n}\n")
    done = wir(command, broken)
    assert done.exit_code == 2
    assert "WIR5" in done.output
    assert "line 2" in done.output


def test_capture_wants_a_function() -> None:
    done = wir("capture", "json", "-o", "x.wir")
    assert done.exit_code == 2
    assert "MODULE:FUNCTION" in done.output
