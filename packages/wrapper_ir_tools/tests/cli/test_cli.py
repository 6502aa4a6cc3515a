"""The `wir` command: output, exit status, and error messages."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoints
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from wrapper_ir import ir, load, parse_program, save
from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.cli.main import main

TEXT = """\
wir 0.5
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
    leaf = ir.TreeSpec(kind=ir.TreeKind.LEAF)
    args = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf,))
    signature = ir.Signature(
        inputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(args, ir.TreeSpec(kind=ir.TreeKind.DICT))),
        params=(0,),
        outputs=leaf,
        bindings=(ir.ResultOutput(index=0),),
        names=("x",),
    )
    path = tmp_path / "m.wir"
    save(Artifact(program=parse_program(TEXT), signature=signature), path)
    return path


def wir(*args: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args], input=stdin)


def test_lower(text: Path, artifact: Path) -> None:
    for path in (text, artifact):
        result = wir("lower", path)
        assert result.exit_code == 0
        assert (
            "  %y = allocate f32[s0, 4] over %y.s\n  call aten::relu.out(self=%x, out=%y)\n" in result.output
        )


def test_print_text_json_and_artifact(text: Path, artifact: Path, tmp_path: Path) -> None:
    assert wir("print", text).output == TEXT
    assert wir("print", artifact).output == TEXT
    assert wir("print", "-", stdin=TEXT).output == TEXT
    as_json = tmp_path / "p.json"
    as_json.write_text(wir("print", "--json", text).output)
    assert wir("print", as_json).output == TEXT
    assert wir("print", "--head", "2", text).output == "wir 0.5\ntarget cpu\n"


def test_verify(text: Path, tmp_path: Path) -> None:
    assert wir("verify", text).output == "ok: 10 ops, 2 check(s) at run time\n"
    bad = tmp_path / "bad.txt"
    bad.write_text(TEXT.replace("  free %y.s\n", "  free %y.s\n  free %y.s\n"))
    process = wir("verify", bad)
    assert process.exit_code == 1
    assert "[WIR0" in process.output
    assert "finding(s)" in process.output


def test_stats(text: Path) -> None:
    process = wir("stats", text, "--hint", "s0=16")
    assert process.exit_code == 0, process.output
    rows = dict(line.rsplit(maxsplit=1) for line in process.output.splitlines() if line.strip())
    joined = " ".join(f"{k}={v}" for k, v in rows.items())
    # two buffers of 16 x 4 floats
    assert "512" in joined, joined


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
    process = wir("diff", text, changed)
    assert process.exit_code == 1
    assert [x for x in process.output.splitlines() if x.startswith("-  free")]


def test_opt(text: Path, artifact: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.txt"
    bare.write_text(TEXT.replace("  free %y.s\n", "").replace("  drop %x\n", ""))
    process = wir("opt", text, "--pass", "derive-frees")
    assert process.exit_code == 0, process.output
    assert "free %y.s" in process.output
    out = tmp_path / "out.wir"
    assert wir("opt", artifact, "--pass", "insert-finite-checks", "-o", out).exit_code == 0
    assert load(out).program.main.name == "main"
    assert "derive-frees" in wir("opt", "--list", text).output


def test_unknown_pass(text: Path) -> None:
    process = wir("opt", text, "--pass", "nonsense")
    assert process.exit_code == 2
    assert "WIR8" in process.output


def test_emit_needs_an_installed_emitter(artifact: Path, tmp_path: Path) -> None:
    process = wir("emit", artifact, "--to", "nonsense", "-o", tmp_path / "out")
    assert process.exit_code == 2
    assert "WIR901" in process.output


@pytest.mark.parametrize("command", ["print", "verify", "stats"])
def test_unreadable_files(command: str, tmp_path: Path) -> None:
    process = wir(command, tmp_path / "absent")
    assert process.exit_code == 2
    assert "WIR702" in process.output
    broken = tmp_path / "broken"
    broken.write_text("wir 0.5\nfunc @main(%x: f99[8]) {\n}\n")
    process = wir(command, broken)
    assert process.exit_code == 2
    assert "WIR5" in process.output
    assert "line 2" in process.output


def test_capture_wants_a_function() -> None:
    process = wir("capture", "json", "-o", "x.wir")
    assert process.exit_code == 2
    assert "MODULE:FUNCTION" in process.output


def test_passes_are_listed_without_a_file() -> None:
    process = wir("opt", "--list")
    assert process.exit_code == 0, process.output
    assert "derive-frees" in process.output


@pytest.mark.parametrize("command", ["stats", "run"])
@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("s9=4", "the program has no symbol 's9' (it has: s0)"),
        ("s0=-5", "s0=-5 is outside the range [2, 1024] of s0"),
        ("s0=99999999999999999999", "is outside the range"),
        ("s0", "expected SYMBOL=N, got 's0'"),
        ("=4", "expected SYMBOL=N, got '=4'"),
    ],
)
def test_hints_are_values_of_the_programs_symbols(
    command: str, hint: str, message: str, artifact: Path
) -> None:
    process = wir(command, artifact, "--hint", hint)
    assert process.exit_code == 2
    assert message in process.output
    assert "Traceback" not in process.output


def test_a_run_has_at_least_one_call(artifact: Path) -> None:
    process = wir("run", artifact, "--repeat", "0")
    assert process.exit_code == 2
    assert "--repeat" in process.output


def test_errors_name_a_file_once(tmp_path: Path) -> None:
    for command, name in (("print", "gone.txt"), ("run", "gone.wir")):
        process = wir(command, tmp_path / name)
        assert process.output.count(name) == 1, process.output
        assert "No such file or directory" in process.output


def test_binary_files_are_refused_by_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(b"\x7fELF\xff\xfe")
    process = wir("print", path)
    assert process.exit_code == 2
    assert process.output == f"wir: [WIR702] cannot read {str(path)!r}: neither a .wir artifact nor text\n"


def test_a_missing_package_is_named() -> None:
    from wrapper_ir.errors import PluginError
    from wrapper_ir.plugins.registry import emitter

    absent = patch("wrapper_ir.plugins.registry.declared", return_value=EntryPoints())
    with absent, pytest.raises(PluginError, match=r"hint: pip install py-wrapper$"):
        emitter("python")


def test_messages_of_torch_are_without_its_frames(artifact: Path) -> None:
    message = (
        "randn(): too large\nException raised from unpack at numbers.h:79 (most recent call "
        "first):\nframe #0: 1"
    )
    with patch("wrapper_ir_tools.cli.files.load", side_effect=TypeError(message)):
        process = wir("run", artifact)
    assert (process.exit_code, process.stderr) == (2, "wir: TypeError: randn(): too large\n")


FACTORIES = """
def broken():
    return {}["weights"]

def nothing():
    return None
"""


def test_a_factorys_error_shows_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "factories.py").write_text(FACTORIES)
    command = [sys.executable, "-m", "wrapper_ir_tools.cli", "capture", "-o", "x.wir"]

    def capture(spec: str) -> str:
        process = subprocess.run([*command, spec], cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 2
        return process.stderr

    message = capture("factories:broken")
    assert "KeyError: 'weights'" in message
    assert message.count('File "') == 1, message
    assert "must return (model, args" in capture("factories:nothing")
    assert "has no function 'absent'" in capture("factories:absent")
    assert "No module named 'gone'" in capture("gone:make")


@pytest.mark.parametrize("args", [("print", "FILE"), ("--help",), ("print", "--help")], ids=" ".join)
def test_output_that_cannot_be_written(args: tuple[str, ...], text: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [
            sys.executable,
            "-m",
            "wrapper_ir_tools.cli",
            *(str(text) if a == "FILE" else a for a in args),
        ]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (process.returncode, process.stderr) == (2, "wir: No space left on device\n")


def test_a_traceback_is_there_for_those_who_ask(tmp_path: Path) -> None:
    process = CliRunner().invoke(main, ["--traceback", "print", str(tmp_path / "gone")])
    assert type(process.exception).__name__ == "ArtifactError"


def test_json_for_other_programs(text: Path, artifact: Path, tmp_path: Path) -> None:
    result = json.loads(wir("stats", "--json", text, "--hint", "s0=16").output)
    assert result["ops"]["AllocStorage"] == 2
    assert result["memory"]["allocated"] == 512
    assert json.loads(wir("verify", "--json", artifact).output) == {
        "valid": True,
        "ops": 10,
        "run_time_checks": 2,
        "signed": False,
    }
    bad = tmp_path / "bad.txt"
    bad.write_text(TEXT.replace("  free %y.s\n", "  free %y.s\n  free %y.s\n"))
    process = wir("verify", "--json", bad)
    assert process.exit_code == 1
    [finding, *_] = json.loads(process.output)["findings"]
    assert finding["code"].startswith("WIR0")
    assert finding["function"] == "main"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_WIR_COMPLETE" in wir("completion", shell).output


def test_diff_shows_text(tmp_path: Path, text: Path) -> None:
    changed = tmp_path / "changed.txt"
    changed.write_text(TEXT.replace("hint 8", "hint 16"))
    lines = wir("diff", text, changed).output.splitlines()
    assert "-symbol s0 : int backed [2, 1024] hint 8" in lines
    assert "+symbol s0 : int backed [2, 1024] hint 16" in lines
