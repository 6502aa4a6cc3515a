"""The generator of random programs: its programs are valid, varied, and reproducible by seed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir import Program, check, ir
from wrapper_ir_tools.testing import RandomOptions, random_artifact, random_program

SEEDS = st.integers(0, 2**32)


def _program(seed: int, *, executable: bool = False, hostile: bool = True) -> Program:
    rng = random.Random(seed)
    return random_program(rng, rng.randrange(40), RandomOptions(executable=executable, hostile=hostile))


@given(SEEDS, st.booleans(), st.booleans())
def test_programs_are_valid(seed: int, executable: bool, hostile: bool) -> None:
    assert check(_program(seed, executable=executable, hostile=hostile)) == ()


@pytest.mark.conformance
@settings(max_examples=10_000)
@given(SEEDS, st.booleans(), st.booleans())
def test_many_programs_are_valid(seed: int, executable: bool, hostile: bool) -> None:
    assert check(_program(seed, executable=executable, hostile=hostile)) == ()


def test_every_op_is_used() -> None:
    classes = {type(op) for seed in range(60) for f in _program(seed).functions for op in f.body}
    assert classes == set(ir.OPS)


def test_same_seed_same_program() -> None:
    assert _program(7) == _program(7)
    assert _program(7) != _program(8)


def test_plain_names() -> None:
    for seed in range(30):
        for function in _program(seed, hostile=False).functions:
            assert all(p.value.name.isidentifier() for p in function.params)


def test_artifacts_hold_their_constants() -> None:
    artifact = random_artifact(random.Random(3), 5)
    for constant in artifact.program.constants:
        assert artifact.constants[constant.value.name].sha256() == constant.data_hash
    assert artifact.signature.params == tuple(range(len(artifact.program.main.params)))
