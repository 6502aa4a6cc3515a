"""Runs sessions of `wir step` and compares the transcripts with golden files (`--update-golden` rewrites
them).

Each file in `sessions` begins with the program; the lines after `---` are commands and their output.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import OPTIONS
from packages.wrapper_ir_runtime.tests.interp.list_machine import Tensor, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import LOOP, subject

from wrapper_ir_tools.debugger.console import Console
from wrapper_ir_tools.debugger.controller import Controller
from wrapper_ir_tools.debugger.kept_states import StateLimits
from wrapper_ir_tools.debugger.subject import Subject

SESSIONS = Path(__file__).parent / "sessions"
NAMES = sorted(path.stem for path in SESSIONS.glob("*.txt"))
PROMPT = "(wir) "


def controller_of(text: str, *args: Tensor, states: int = 8) -> Controller:
    return Controller(subject(text, *args), StateLimits(count=states))


def play(text: str, commands: list[str], *args: Tensor, folders: tuple[Path, ...] = ()) -> str:
    out = io.StringIO()
    console = Console(controller_of(text, *args), out, folders)
    console.show()
    for line in commands:
        console.say(PROMPT + line)
        if console.onecmd(line):
            break
    return out.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_session(name: str, update_golden: bool) -> None:
    path = SESSIONS / f"{name}.txt"
    program, _, session = path.read_text(encoding="utf-8").partition("---\n")
    commands = [line.removeprefix(PROMPT) for line in session.splitlines() if line.startswith(PROMPT)]
    played = play(program, commands, tensor([-1.0, 0.25]))
    if update_golden:
        path.write_text(f"{program}---\n{played}", encoding="utf-8")
    assert played == session


def test_sessions_use_every_command() -> None:
    text = "".join((SESSIONS / f"{name}.txt").read_text(encoding="utf-8") for name in NAMES)
    commands = {name[3:] for name in dir(Console) if name.startswith("do_")} - {"EOF", "help", "source"}
    assert {c for c in commands if f"{PROMPT}{c}" not in text} == set()


@pytest.mark.parametrize("states", [1, 2, 8])
def test_back_to_every_op(states: int) -> None:
    """Going back shows the same as going forward, for any number of kept states."""
    controller = controller_of(LOOP, tensor([-1.0, -0.5]), states=states)
    positions: list[tuple[str, int, int]] = []
    while controller.stack:
        step = controller.step
        positions.append((step.function.name, step.position, len(controller.stack)))
        controller.into()
    assert controller.results is not None
    assert len(positions) > 15
    for tick in reversed(range(len(positions))):
        controller.back_to(tick)
        step = controller.step
        assert (step.function.name, step.position, len(controller.stack)) == positions[tick]
        assert controller.tick == tick


def test_source_lines(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def f(x):\n    return -x  # here\n")
    text = """
func @main(%x: f32[2]) {
  %n = call list::neg(%x) : f32[2]  #1
  return %n
}
provenance
  #1 nodes("neg") at("net.py:2", "lib/other.py:7", "/etc/passwd:1")
"""
    played = play(
        text,
        ["source", "break net.py:2", "break other.py:7", "break neg", "where"],
        tensor([1.0, 2.0]),
        folders=(tmp_path,),
    )
    assert played.splitlines()[1:] == [
        "(wir) source",
        "net.py:2: return -x  # here",
        "lib/other.py:7 (neither the artifact nor this machine has its text)",
        "/etc/passwd:1 (neither the artifact nor this machine has its text)",
        "(wir) break net.py:2",
        "breakpoint 1: net.py:2, 1 ops",
        "(wir) break other.py:7",
        "breakpoint 2: other.py:7, 1 ops",
        "(wir) break neg",
        "breakpoint 3: neg, 1 ops",
        "(wir) where",
        "#0 @main op 0: %n = call list::neg(%x) : f32[2]",
        "from net.py:2, lib/other.py:7, /etc/passwd:1; nodes neg",
    ]


def test_lines_that_the_artifact_has(tmp_path: Path) -> None:
    """The file is missing, or has changed since."""
    (tmp_path / "net.py").write_text("def f(x):\n    return x\n")
    text = """
func @main(%x: f32[2]) {
  %n = call list::neg(%x) : f32[2]  #1
  return %n
}
provenance
  #1 at("net.py:1", "net.py:2", "gone.py:7")
"""
    case = subject(text, tensor([1.0, 2.0]))
    recorded = {"net.py:1": "def f(x):", "net.py:2": "return -x", "gone.py:7": "y = f(x)"}
    artifact = replace(case.artifact, extensions={"sources.json": json.dumps(recorded)})
    out = io.StringIO()
    controller = Controller(Subject(artifact, case.machine, case.inputs, OPTIONS), StateLimits())
    Console(controller, out, (tmp_path,)).onecmd("source")
    assert out.getvalue().splitlines() == [
        "net.py:1: def f(x):",
        "net.py:2: return -x (the file has `return x` now)",
        "gone.py:7: y = f(x)",
    ]


def test_completion() -> None:
    console = Console(controller_of(LOOP, tensor([1.0, 2.0])), io.StringIO())
    assert console.completenames("re") == ["restart"]
    assert "EOF" not in console.completenames("")
    line = "print %x"
    assert console.completedefault("x", line, 7, 8) == ["x"]
    assert console.completedefault("%s", "watch %s", 6, 8) == ["%state"]
    assert console.completedefault("@dou", "break @dou", 6, 10) == ["@double"]
    assert console.completedefault("@st", "break @st", 6, 9) == ["@step:"]
