"""Every example of `docs/text-form.md` parses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packages.wrapper_ir.tests.text.form_context import program_of

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.errors import ParseError

PAGE = (Path(__file__).parents[4] / "docs" / "text-form.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", _blocks("wir"))
def test_programs(text: str) -> None:
    program = parse_program(text)
    assert parse_program(print_program(program)) == program


@pytest.mark.parametrize("lines", _blocks("wir-ops"))
def test_ops(lines: str) -> None:
    assert program_of(lines).main.body


def test_all_ops_are_shown() -> None:
    classes = {type(op) for lines in _blocks("wir-ops") for op in program_of(lines).main.body}
    assert classes == set(ir.OPS)


def test_first_program_is_canonical() -> None:
    first = _blocks("wir")[0]
    assert print_program(parse_program(first)) == first


def test_the_error_is_as_shown() -> None:
    (example,) = [b for b in _blocks("text") if b.startswith("[WIR503]")]
    with pytest.raises(ParseError) as caught:
        parse_program("wir 0.5\nfunc @main(%x: f32[8]) {\n  fre %x\n}\n")
    assert str(caught.value) == example.rstrip("\n")
