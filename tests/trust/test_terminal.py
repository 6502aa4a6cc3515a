"""Names, texts and messages of a program reach the terminal as text: no escape, and no line that a name
began.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import wrapper_ir
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.support.quoting import printable, terminal_text
from wrapper_ir_tools.cli.main import main

EVIL = r"\u001b]0;owned\u0007\u001b[2J\nFORGED \r\u202e\u009b"
TEXT = f'''
wir 0.5
target cpu

extern "aten::relu(Tensor self) -> Tensor"
extern "evil::op(Tensor self) -> Tensor"

const %"c{EVIL}" : f32[4]

func @main(%"x{EVIL}": f32[4]) {{
  comment "{EVIL}"
  %"a{EVIL}" = alloc f32[4]
  copy %"a{EVIL}", %"x{EVIL}"
  debug names %"a{EVIL}" "{EVIL}"
  %"y{EVIL}" = call aten::relu(%"a{EVIL}") : f32[4]  #1
  %"z{EVIL}" = call_subgraph @"f{EVIL}"(%"y{EVIL}") : f32[4]  #1
  free %"y{EVIL}"
  free %"a{EVIL}.s"
  return %"z{EVIL}"
}}

func @"f{EVIL}"(%"p{EVIL}": f32[4]) {{
  %"q{EVIL}" = CALL : f32[4]
  return %"q{EVIL}"
}}

provenance
  #1 nodes("{EVIL}") ops("{EVIL}") at("{EVIL}.py:3")
'''
COMMANDS = [
    "print", "verify", "stats", "memory", "explain", "diff", "lower", "run", "profile", "step", "hunt", "compare", "replay", "opt",
]  # fmt: skip
_BAD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def files(folder: Path) -> dict[str, Path]:
    """A program that is valid, one whose operator fails, one that is not valid, and text that is no program."""
    found = {}
    for name, call in (
        ("good", f'call aten::relu(%"p{EVIL}")'),
        ("failing", f'call evil::op(%"p{EVIL}")'),
        ("invalid", f'call aten::relu(%"c{EVIL}", %"c{EVIL}")'),
    ):
        program = wrapper_ir.parse_program(TEXT.replace("CALL", call))
        found[name] = folder / f"{name}.txt"
        found[name].write_text(wrapper_ir.print_program(program))
        found[f"{name}.json"] = folder / f"{name}.json"
        found[f"{name}.json"].write_text(wrapper_ir.to_json(program))
    plain = wrapper_ir.parse_program(
        re.sub(r"const .*\n", "", TEXT).replace("CALL", f'call aten::relu(%"p{EVIL}")')
    )
    found["artifact"] = folder / "m\x1b[2J\nFORGED.wir"
    wrapper_ir.save(bare_artifact(plain), found["artifact"])
    found["text"] = folder / "text.txt"
    found["text"].write_text("wir 0.5\x1b[2J\r\nFORGED")
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_send_no_escapes_and_no_lines_of_names(command: str, tmp_path: Path) -> None:
    for name, path in files(tmp_path).items():
        other = [str(tmp_path / "failing.txt")] if command == "diff" else []
        words = [command, str(path), *other, *(["--batch"] if command == "step" else [])]
        done = CliRunner().invoke(main, words)
        output = done.output
        assert not _BAD.search(output), (name, output)
        forged = [line for line in output.splitlines() if line.lstrip().startswith("FORGED")]
        assert name == "text" or not forged, (name, output)


def test_what_is_shown() -> None:
    text = json.loads(f'"{EVIL}"')
    assert terminal_text(text) == r"\u001b]0;owned\u0007\u001b[2J" + "\n" + r"FORGED \r\u202e\u009b"
    assert printable(text) == EVIL
    assert terminal_text("é 名\t\n") == "é 名\t\n"
