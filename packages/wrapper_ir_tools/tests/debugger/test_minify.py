"""Shrinks failing programs to the few ops that matter, and prints them as failing tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packages.wrapper_ir_runtime.tests.interp.interp_case import HEADER, OPTIONS
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, tensor
from packages.wrapper_ir_tools.tests.debugger.debug_case import LOOP, subject
from packages.wrapper_ir_tools.tests.debugger.wrong_emitter import Wrong

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError, VerificationError
from wrapper_ir.plugins.eager import EagerValue
from wrapper_ir.text import parse_program, print_function
from wrapper_ir.verifier import verify
from wrapper_ir_tools.debugger.hunt import HuntOptions
from wrapper_ir_tools.debugger.minify import (
    Check,
    EagerReference,
    ModuleOptions,
    command_check,
    eager_check,
    engine_check,
    finite_check,
    minify,
    module_text,
    program_check,
)
from wrapper_ir_tools.debugger.minify.search import smallest, smallest_set
from wrapper_ir_tools.debugger.subject import Subject

NAN = finite_check(ListMachine(), HuntOptions(nan_only=True), OPTIONS)


@pytest.mark.parametrize("wrong", [{3}, {0, 9}, {1, 4, 7}, set()])
def test_smallest_set(wrong: set[int]) -> None:
    tries: list[Sequence[int]] = []

    def fails(items: Sequence[int]) -> bool:
        tries.append(items)
        return wrong <= set(items)

    assert smallest_set(range(10), fails) == sorted(wrong)
    assert len(tries) < 60


def test_smallest() -> None:
    assert [smallest(0, 9, lambda n, m=m: n >= m) for m in range(10)] == list(range(10))  # type: ignore[misc]


def long_program(length: int) -> str:
    """A program of sums and negations, one of which turns the parameter into a NaN."""
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
    result = minify(subject(long_program(30), tensor([1.0, 2.0]), tensor([-100.0, 0.0])), NAN)
    verify(result.artifact)
    assert (
        print_function(result.artifact.program.main, result.artifact.program)
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
    assert result.before > 60
    assert result.tries < 30


def test_an_engine() -> None:
    check = engine_check(Wrong(), ListMachine(), OPTIONS)
    result = minify(subject(LOOP, tensor([-1.0, -2.0])), check)
    calls = [op for op in result.artifact.program.ops if type(op).__name__ == "CallExtern"]
    assert len(calls) == 1
    assert [f.name for f in result.artifact.program.functions] == ["main"]
    assert check.fails(result.artifact)


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

    result = minify(Subject(negative, ListMachine(), options=OPTIONS), Check(fails, "there is a logarithm"))
    assert "f32[s0]" in print_function(result.artifact.program.main, result.artifact.program)
    assert "define s0 = 2" in print_function(result.artifact.program.main, result.artifact.program)


def test_a_command() -> None:
    case = subject(long_program(3), tensor([1.0, 2.0]), tensor([-100.0, 0.0]))
    whole = minify(case, NAN).artifact
    check = command_check(
        "if grep -q list::log {}; then echo '[WIR999] a logarithm'; exit 3; fi",
        whole,
        # entries of a .wir file are not compressed
    )
    assert check.fails(whole)
    result = minify(case, check)
    assert "list::log" in print_function(result.artifact.program.main, result.artifact.program)
    assert result.after == 7


def test_a_program_that_does_not_fail() -> None:
    with pytest.raises(DebugError, match=r"WIR962.*no sign that an op makes a NaN"):
        minify(subject(long_program(3), tensor([1.0, 2.0]), tensor([3.0, 4.0])), NAN)


def test_an_invalid_program() -> None:
    text = (
        "func @main(%x: f32[2]) {\n  %n = alloc f32[2]\n  %y = call list::log(%n) : f32[2]\n  return %y\n}\n"
    )
    with pytest.raises(VerificationError, match="WIR080"):
        minify(subject(text, tensor([1.0, 2.0])), NAN)


# --- two programs, which shrink alike


def sums(length: int, wrong: int = -1, *, extra: bool = False) -> str:
    """A program of sums, one of which is replaced by a negation or preceded by another op."""
    lines, ends = ["func @main(%x: f32[2]) {"], []
    for i in range(length):
        before = "%x" if i == 0 else f"%v{i - 1}"
        if i == wrong and extra:
            lines.append(f"  %more = call list::neg({before}) : f32[2]")
            ends.append("%more")
        call = f"add({before}, %{'more' if extra else 'x'})" if i == wrong else f"add({before}, %x)"
        name = f"neg({before})" if i == wrong and not extra else call
        lines.append(f"  %v{i} = call list::{name} : f32[2]")
        ends.append(f"%v{i}")
    frees = [f"  free {name}" for name in ends if name != f"%v{length - 1}"]
    return "\n".join([*lines, *frees, f"  return %v{length - 1}", "}", ""])


@pytest.mark.parametrize(("first_extra", "second_extra"), [(False, False), (True, False), (False, True)])
def test_two_programs(first_extra: bool, second_extra: bool) -> None:
    """Each program keeps the op that differs, and the ops that only one of them needs for it."""
    x = tensor([1.0, 2.0])
    plain = not first_extra and not second_extra
    one = subject(sums(20, 9 if first_extra else -1, extra=first_extra), x)
    two = subject(sums(20, -1 if first_extra else 9, extra=not plain), x, draws=one.draws)
    check = program_check(ListMachine(), OPTIONS)
    result = minify(one, check, two)
    assert result.second is not None
    assert check.fails(result.artifact, result.second)
    calls = [
        [op.target for op in artifact.program.main.body if isinstance(op, ir.CallExtern)]
        for artifact in (result.artifact, result.second)
    ]
    extra = ["list::neg", "list::add"]
    assert calls == [
        extra if first_extra else ["list::add"],
        extra if second_extra else ["list::neg"] if plain else ["list::add"],
    ]
    shared = result.artifact.constants.keys() & result.second.constants.keys()
    assert shared
    assert all(result.artifact.constants[n].buffer == result.second.constants[n].buffer for n in shared)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ("func @main(%y: f32[2]) {\n  return %y\n}\n", "take different inputs"),
        ("func @main(%x: f32[2]) {\n  return %x\n}\n", "have no op in common"),
    ],
)
def test_invalid_pairs(other: str, why: str) -> None:
    with pytest.raises(DebugError, match=rf"WIR963.*{why}"):
        minify(
            subject(sums(3), tensor([1.0, 2.0])),
            program_check(ListMachine(), OPTIONS),
            subject(other, tensor([1.0, 2.0])),
        )


# --- the model in eager mode


class Model:
    """An eager model of a program of sums, with the nodes that its ops name."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.runs = 0
        self.constants: dict[str, Any] = {}

    def values(self) -> Iterator[EagerValue]:
        self.runs += 1
        for i in range(self.length):
            yield EagerValue(node=f"node_{i}", value=tensor([i + 2.0, 2 * (i + 2.0)]))


def with_nodes(program: ir.Program) -> ir.Program:
    body = [
        replace(op, prov=ir.Provenance(nodes=(f"node_{op.result.name[1:]}",)))
        if isinstance(op, ir.CallExtern) and op.result is not None
        else op
        for op in program.main.body
    ]
    return program.with_functions((program.main.with_body(body),))


def wrong_sums() -> Subject:
    case = subject(sums(12, 7), tensor([1.0, 2.0]))
    artifact = replace(case.artifact, program=with_nodes(case.artifact.program))
    return Subject(artifact, ListMachine(), case.inputs, OPTIONS)


def test_against_the_model() -> None:
    """Keeps the wrong op with its inputs; later ops, which are wrong because of it, are removed."""
    model, case = Model(12), wrong_sums()
    reference = EagerReference(case, model)
    check = eager_check(reference, ListMachine(), OPTIONS)
    result = minify(case, check)
    assert [op.target for op in result.artifact.program.ops if isinstance(op, ir.CallExtern)] == ["list::neg"]
    # contents are kept
    assert any(any(d.buffer) for d in result.artifact.constants.values())
    assert result.notes == ("sizes and contents stay as they are: the model's values belong to them",)
    assert model.runs == 1
    small = Subject(result.artifact, ListMachine(), options=OPTIONS)
    options = ModuleOptions(machine="list", model=reference.mismatch(small))
    test = run_module(module_text(result.artifact, check.text, options))["test_the_value_is_the_models"]
    with pytest.raises(AssertionError):
        test()


def test_a_program_that_agrees_with_the_model() -> None:
    case = subject(sums(12), tensor([1.0, 2.0]))
    artifact = replace(case.artifact, program=with_nodes(case.artifact.program))
    with pytest.raises(DebugError, match=r"WIR962.*12 values agree with the model's nodes"):
        EagerReference(Subject(artifact, ListMachine(), case.inputs, OPTIONS), Model(12))


# --- the generated module


def run_module(text: str) -> dict[str, Any]:
    """Executes a generated module with the machine of these tests; returns its definitions."""
    namespace: dict[str, Any] = {}
    # the generated source
    exec(compile(text, "small", "exec"), namespace)
    namespace["machine"] = lambda name: {"list": ListMachine()}[name]
    return namespace


@pytest.mark.parametrize("kind", ["nan", "engine", "command", "programs"])
def test_the_module(kind: str, tmp_path: Path) -> None:
    small = minify(subject(long_program(3), tensor([1.0, 2.0]), tensor([-100.0, 0.0])), NAN).artifact
    text = module_text(
        small,
        NAN.text,
        ModuleOptions(
            machine="list",
            engine="wrong" if kind == "engine" else "",
            command="exit 3; :" if kind == "command" else "",
            second=small if kind == "programs" else None,
        ),
    )
    module = run_module(text)
    again = module["artifact"]()
    assert print_function(again.program.main, again.program) == print_function(
        small.program.main, small.program
    )
    assert again.constants.keys() == small.constants.keys()
    assert NAN.fails(again)
    if kind == "nan":
        with pytest.raises(AssertionError):
            module["test_every_op_is_finite"]()
    if kind == "command":
        with pytest.raises(AssertionError):
            module["test_the_command_succeeds"](tmp_path)
    if kind == "programs":
        module["test_both_programs_agree"]()
