"""Refusals of programs that cannot be lowered have a code, the op and its place."""

from __future__ import annotations

import pytest

from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import LoweringError, NotSupportedError, WirError
from wrapper_ir_lowering import lower
from wrapper_ir_lowering.arguments import default_value

HEAD = """wir 0.5
target cpu

symbol s9 : int unbacked

extern "aten::relu(Tensor self) -> Tensor"
kernel cpp @k entry "k" (read f32* x) {{{
}}}
"""
SUBGRAPHS = """
func @again(%x: f32[4]) {
  %y = call_subgraph @again(%x) : f32[4]
  return %y
}

func @captures(%x: f32[4]) captures(s9) {
  return
}
"""
INVALID = {
    "unknown_operator": ("  call aten::nothing(%x)\n", "declares no operator aten::nothing"),
    "argument_that_no_schema_has": ("  %y = call aten::relu(%x, other=%x) : f32[4]\n", "does not fit"),
    "too_many_arguments": ("  %y = call aten::relu(%x, %x) : f32[4]\n", "does not fit"),
    "argument_left_out": ("  %y = call aten::relu() : f32[4]\n", "leaves out self"),
    "unknown_kernel": ("  launch @nothing(%x)\n", "no kernel @nothing"),
    "wrong_number_of_arguments": ("  launch @k(%x, %x)\n", "takes 1 arguments, got 2"),
    "unknown_function": ("  call_subgraph @nothing(%x)\n", "no function @nothing"),
    "recursive_function": ("  %y = call_subgraph @again(%x) : f32[4]\n", "@again calls itself"),
    "symbol_without_a_value": ("  call_subgraph @captures(%x)\n", "captures s9"),
}
UNSUPPORTED = {
    "stream_of_the_host": ("  copy %x, %x stream(2)\n", "WIR910"),
    "event_of_the_host": ("  %e = record_event @cpu stream(1)\n", "WIR911"),
    "symmetric_memory_of_the_host": ('  %s = alloc_storage 64 symmetric("g", 1)\n', "WIR913"),
    "pool_of_the_host": ('  enter_memory_pool "a" @cpu\n', "WIR224"),
}


def refusal(body: str) -> WirError:
    program = parse_program(f"{HEAD}func @main(%x: f32[4]) {{\n{body}  return\n}}\n{SUBGRAPHS}")
    with pytest.raises(WirError) as caught:
        lower(bare_artifact(program))
    return caught.value


@pytest.mark.parametrize("name", INVALID)
def test_invalid_programs(name: str) -> None:
    """The verifier reports these first."""
    body, message = INVALID[name]
    error = refusal(body)
    assert isinstance(error, LoweringError)
    assert error.code == "WIR240"
    assert message in error.message
    assert "^^^" in error.message


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_no_target_does(name: str) -> None:
    body, code = UNSUPPORTED[name]
    error = refusal(body)
    assert isinstance(error, NotSupportedError)
    assert error.code == code
    assert "^^^" in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int dim=-1", "-1"),
        ("float eps=1e-05", "1e-05"),
        ("bool b=False", "false"),
        ("int[2] stride=1", "[1, 1]"),
        ("int[2]? stride=3", "[3, 3]"),
        ("int[] dims=[0, 1]", "[0, 1]"),
        ("int[1]? dim=None", "none"),
        ('str mode="mean"', '"mean"'),
        ("MemoryFormat memory_format=contiguous_format", "memory_format(contiguous_format)"),
    ],
)
def test_defaults(text: str, value: str) -> None:
    from wrapper_ir.text.printer import type_printer

    (arg,) = ir.parse_schema(f"a::b({text}) -> ()").args
    assert type_printer(None).arg(default_value(arg)) == value


def test_a_default_that_cannot_be_read() -> None:
    with pytest.raises(LoweringError, match=r"WIR241.*'Mean'"):
        default_value(ir.SchemaArg(name="reduction", type="int", default="Mean"))
