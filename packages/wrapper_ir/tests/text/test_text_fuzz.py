"""Damaged text and JSON: the result is a program that has a form again, or a WirError."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.wrapper_ir.tests.text.form_context import every_op

from wrapper_ir import Program, from_json, parse_program, print_program, to_json
from wrapper_ir.errors import ParseError, WirError
from wrapper_ir.json import signature_from_json
from wrapper_ir_tools.testing import random_program

SEEDS = st.integers(0, 2**32)
_TOKENS = (
    "%x", "%", "@", "@f", "#1", "#", '"', '""', "{{{", "}}}", "{{{\n}}}\n", "(", ")", "[", "]", "{", "}", ",", ":", "::",
    "=", "==", "+", "-", "*", "**", "//", "/", "0", "1", "-1", "1.5", "1e999", "9" * 30, "none", "f32", "f32[", "int",
    "storage", "results", "not", "and", "inf", "nan", "true", "size(", "min(", "wir", "func", "kernel", "symbol", "return",
    "alloc", "view", "free", "provenance", "\n", "\r\n", "\t", " ", "\0", "é", "\u0301", "\ud800", "\\", "\\n", "#x",
)  # fmt: skip


def _mutate(text: str, rng: random.Random) -> str:
    """Returns the text after one random change of a few characters, tokens or lines."""
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice((0, 0, 1, 1, 3, 20)))
    match rng.randrange(6):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:start] + rng.choice(_TOKENS) + text[end:]
        case 2:
            return text[:start] + text[start:end] * 2 + text[end:]
        case 3:
            return text[:start]
        case 4:
            other = rng.randrange(len(text) + 1)
            return text[:start] + text[other : other + rng.randrange(40)] + text[end:]
        case _:
            lines = text.splitlines(keepends=True)
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a]
            return "".join(lines)


def _source(rng: random.Random) -> Program:
    return parse_program(every_op()) if rng.random() < 0.4 else random_program(rng, 6)


def _damaged_text(seed: int) -> None:
    rng = random.Random(seed)
    text = print_program(_source(rng))
    for _ in range(rng.randrange(1, 5)):
        text = _mutate(text, rng) or text
    _accepted_or_refused(parse_program, text)


def _accepted_or_refused(read: Callable[[str], Program], text: str) -> None:
    try:
        program = read(text)
    except WirError as error:
        # besides what cannot be read: a value of a kind that its op does not take, and `cond` over a number
        assert error.code.startswith("WIR5") or error.code in ("WIR013", "WIR014", "WIR096"), text
        return
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


Json = object
_THINGS: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    10**40,
    "",
    "x",
    "s0",
    [],
    {},
    [[]],
    ["add", 1],
    {"float": 1},
)


def _damaged_json(seed: int) -> None:
    rng = random.Random(seed)
    text = to_json(_source(rng))
    if rng.random() < 0.3:
        _accepted_or_refused(from_json, _mutate(text, rng))
        return
    document = json.loads(text)
    for _ in range(rng.randrange(1, 4)):
        _change(document, rng)
    _accepted_or_refused(from_json, json.dumps(document))


def _change(node: Json, rng: random.Random) -> None:
    """Changes something somewhere below `node`."""
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.85:
            node = inner
            continue
        match rng.randrange(3):
            case 0:
                del node[key]
            case 1:
                node[key] = rng.choice(_THINGS)
            case _ if isinstance(node, dict):
                node[rng.choice((*node, "extra"))] = inner
            case _:
                node.insert(0, inner)
        return


@given(SEEDS)
def test_damaged_text(seed: int) -> None:
    _damaged_text(seed)


@given(SEEDS)
def test_damaged_json(seed: int) -> None:
    _damaged_json(seed)


@pytest.mark.conformance
@settings(max_examples=10_000)
@given(SEEDS)
def test_much_damaged_text(seed: int) -> None:
    _damaged_text(seed)


@pytest.mark.conformance
@settings(max_examples=10_000)
@given(SEEDS)
def test_much_damaged_json(seed: int) -> None:
    _damaged_json(seed)


@given(st.text())
def test_any_text(text: str) -> None:
    for read in (parse_program, from_json, signature_from_json):
        with pytest.raises(ParseError):
            read(text)


@given(st.lists(st.sampled_from(_TOKENS), max_size=30))
def test_any_tokens(tokens: list[str]) -> None:
    for head in ("wir 0.5\n", "wir 0.5\nfunc @main(%x: f32[2]) {\n"):
        _accepted_or_refused(parse_program, head + " ".join(tokens))


HOSTILE = [
    '"\\"' * 40_000,
    "{" * 80_000,
    " " * 80_000,
    "%" * 80_000,
    "#" * 80_000,
    "\n" * 80_000,
    "a" * 80_000,
]
HOSTILE += [
    "{{{\n" * 20_000,
    "1." * 40_000,
    "[" * 80_000,
    "a," * 40_000,
    "\\" * 80_000,
    '"' * 80_001,
    "-" * 80_000,
]
HOSTILE += [
    " {{{ " * 16_000,
    "{{{" + " " * 80_000,
    "}}}\n" * 20_000,
    "{{{\n" + "}}\n" * 20_000,
    "# \n" * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:6]))
def test_hostile_text_takes_linear_time(text: str) -> None:
    for head in ("", "wir 0.5\n", "wir 0.5\nfunc @main() {\n  launch @k(", "wir 0.5\nkernel cpp @k entry "):
        for read in (parse_program, from_json):
            with contextlib.suppress(ParseError):  # blanks and comments are a program
                read(head + text)
