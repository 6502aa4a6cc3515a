"""Failing programs shrink to the few ops that it takes, and come out as tests that fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packages.wrapper_ir.tests.debugger.debug_case import LOOP, subject
from packages.wrapper_ir.tests.debugger.wrong_emitter import Wrong
from packages.wrapper_ir.tests.interp.interp_case import HEADER, OPTIONS
from packages.wrapper_ir.tests.interp.list_machine import ListMachine, tensor

from wrapper_ir.artifact import Artifact
from wrapper_ir.debugger.hunt import HuntOptions
from wrapper_ir.debugger.minify import Check, command_check, engine_check, finite_check, minify, module_text
from wrapper_ir.debugger.minify.search import smallest, smallest_set
from wrapper_ir.errors import DebugError
from wrapper_ir.text import parse_program, print_function
from wrapper_ir.verifier import verify

NAN = finite_check(ListMachine(), HuntOptions(nan_only=True), OPTIONS)


@pytest.mark.parametrize("wrong", [{3}, {0, 9}, {1, 4, 7}, set()])
def test_smallest_set(wrong: set[int]) -> None:
    tries: list[Sequence[int]] = []

    def fails(kept: Sequence[int]) -> bool:
        tries.append(kept)
        return wrong <= set(kept)

    assert smallest_set(range(10), fails) == sorted(wrong)
    assert len(tries) < 60


def test_smallest() -> None:
    assert [smallest(0, 9, lambda n, m=m: n >= m) for m in range(10)] == list(range(10))  # type: ignore[misc]


def long_program(length: int) -> str:
    """Sums and negations of which one makes a NaN of the parameter."""
    lines = ["func @main(%x: f32[2], %y: f32[2]) {"]
    for i in range(length):
        before = "%x" if i == 0 else f"%v{i - 1}"
        lines.append(f"  %v{i} = call list::add({before}, %x) : f32[2]")
    lines.append(f"  %w = call list::add(%v{length // 2}, %y) : f32[2]")
    lines.append("  %l = call list::log(%w) : f32[2]")
    lines.append(f"  %z = call list::add(%l, %v{length - 1}) : f32[2]")
    ends = [*(f"%v{i}" for i in range(length)), "%w", "%l"]
    return "\n".join([*lines, *(f"  free {name}" for name in ends), "  return %z, %x", "}", ""])


def test_a_nan() -> None:
    found = minify(subject(long_program(30), tensor([1.0, 2.0]), tensor([-100.0, 0.0])), NAN)
    verify(found.artifact)
    assert (
        print_function(found.artifact.program.main, found.artifact.program)
        == """\
func @main() {
  %w.s = alloc_storage 8
  %w.s.bytes = view %w.s : u8[8]
  copy %w.s.bytes, %w.s.content
  %w = view %w.s : f32[2]
  %l = call list::log(%w) : f32[2]
  free %w.s
  return %l
}"""
    )
    assert found.before > 60
    assert found.tries < 30


def test_an_engine() -> None:
    check = engine_check(Wrong(), ListMachine(), OPTIONS)
    found = minify(subject(LOOP, tensor([-1.0, -2.0])), check)
    calls = [op for op in found.artifact.program.ops if type(op).__name__ == "CallExtern"]
    assert len(calls) == 1
    assert [f.name for f in found.artifact.program.functions] == ["main"]
    assert check.fails(found.artifact)


SIZES = """
func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %y = call list::log(%x) : f32[s0]
  return %y
}
"""


def test_smaller_sizes() -> None:
    header = HEADER.replace("[0, *] hint 2", "[2, *] hint 40")
    case = subject("func @main(%x: f32[2]) {\n  return %x\n}\n", tensor([1.0, 2.0]))
    program = parse_program(header + SIZES)
    negative = replace(case.artifact, program=program)

    def fails(artifact: Artifact) -> bool:
        return "list::log" in print_function(artifact.program.main, artifact.program)

    from wrapper_ir.debugger.subject import Subject

    found = minify(Subject(negative, ListMachine(), options=OPTIONS), Check(fails, "there is a logarithm"))
    assert "f32[s0]" in print_function(found.artifact.program.main, found.artifact.program)
    assert "define s0 = 2" in print_function(found.artifact.program.main, found.artifact.program)


def test_a_command(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import sys, wrapper_ir\n"
        "text = wrapper_ir.print_program(wrapper_ir.load(sys.argv[1]).program)\n"
        "if 'list::log' in text: sys.exit('[WIR999] a logarithm')\n"
    )
    case = subject(long_program(3), tensor([1.0, 2.0]), tensor([-100.0, 0.0]))
    whole = minify(case, NAN).artifact
    check = command_check(f"{sys.executable} {script} {{}}", whole)
    assert check.fails(whole)
    found = minify(case, check)
    assert "list::log" in print_function(found.artifact.program.main, found.artifact.program)
    assert found.after == 7


def test_a_program_that_does_not_fail() -> None:
    with pytest.raises(DebugError, match=r"WIR962.*no sign that an op makes a NaN"):
        minify(subject(long_program(3), tensor([1.0, 2.0]), tensor([3.0, 4.0])), NAN)


@pytest.mark.parametrize("kind", ["nan", "engine", "command"])
def test_the_module(kind: str, tmp_path: Path) -> None:
    small = minify(subject(long_program(3), tensor([1.0, 2.0]), tensor([-100.0, 0.0])), NAN).artifact
    text = module_text(
        small,
        NAN.text,
        machine="list",
        engine="wrong" if kind == "engine" else "",
        command=f"{sys.executable} -c 'import sys; sys.exit(3)'" if kind == "command" else "",
    )
    compile(text, "small", "exec")
    namespace: dict[str, object] = {}
    exec(text, namespace)  # what the tool wrote
    again = namespace["artifact"]()  # type: ignore[operator]  # the function in the module
    assert print_function(again.program.main, again.program) == print_function(
        small.program.main, small.program
    )
    assert again.constants.keys() == small.constants.keys()
    assert NAN.fails(again)
    if kind == "command":
        path = tmp_path / "test_small.py"
        path.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout
        assert "1 failed" in done.stdout
