"""Round trips of text and JSON, for valid programs and for all others that have a form."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packages.wrapper_ir.tests.text.form_strategies import programs

from wrapper_ir import Program, from_json, parse_program, print_program, to_json
from wrapper_ir_tools.testing import RandomOptions, random_program

SEEDS = st.integers(0, 2**32)


def _round_trip(program: Program) -> None:
    text = print_program(program)
    parsed = parse_program(text)
    assert parsed == program
    assert print_program(parsed) == text
    document = to_json(program)
    decoded = from_json(document)
    assert decoded == program
    assert to_json(decoded) == document


def _valid(seed: int, executable: bool) -> Program:
    rng = random.Random(seed)
    return random_program(rng, rng.randrange(40), RandomOptions(executable=executable))


@given(SEEDS, st.booleans())
@example(0, True)
def test_valid_programs(seed: int, executable: bool) -> None:
    _round_trip(_valid(seed, executable))


@given(programs())
def test_any_programs(program: Program) -> None:
    _round_trip(program)


@pytest.mark.conformance
@pytest.mark.parametrize("thousand", range(10))
def test_many_valid_programs(thousand: int) -> None:
    """Tests 10,000 seeds, split into parts for parallel workers."""
    for seed in range(1000 * thousand, 1000 * (thousand + 1)):
        _round_trip(_valid(seed, executable=seed % 2 == 0))


@pytest.mark.conformance
@settings(max_examples=10_000)
@given(programs())
def test_many_programs(program: Program) -> None:
    _round_trip(program)
