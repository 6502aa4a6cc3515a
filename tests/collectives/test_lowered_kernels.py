"""Kernels over symmetric memory equal the collectives that they replace, through every engine.

`test_parallel.py` does the same with several processes, `test_symmetric_gpu.py` with torch's own kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import py_wrapper
from tests.collectives.collective_cases import WORLD, lonely_group
from tests.collectives.fused_cases import engines
from tests.collectives.lowered_cases import OPTIONS, lowered_pair, on_host, program
from tests.collectives.random_programs import random_texts
from wrapper_ir import parse_program
from wrapper_ir_passes.collectives.collective_forms import Form
from wrapper_ir_runtime.interp import Interpreter


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("engine", engines())
@pytest.mark.parametrize("rank", range(WORLD))
def test_one_of_two_processes(rank: int, engine: str, options: str, tmp_path: Path) -> None:
    """The other one, which does not exist, would have the same numbers."""
    torch.manual_seed(0)
    x, w = torch.randn(16, 4), torch.randn(4, 4)
    _, other = lowered_pair(program(WORLD), options)
    names = {e.name for e in other.program.externs}
    assert names >= {(Form.TWO_SHOT if options else Form.ONE_SHOT).value, Form.ONE_SHOT_SCATTER.value}
    matmul = x @ w
    share = slice(8 * rank, 8 * rank + 8)
    want = 2 * matmul, 2 * (matmul @ w)[share], 2 * x[share], 2 * (2 * matmul @ w)
    with lonely_group(tmp_path), on_host(lambda tensor, _: 2 * tensor, rank, WORLD):
        torch.testing.assert_close(tuple(engines()[engine](other)(x, w)), want)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This process is all of group 0: a sum equals its operand."""
    with lonely_group(tmp_path_factory.mktemp("group")), on_host(lambda tensor, _: tensor, 0, 1):
        yield


@settings(max_examples=60, deadline=None)
@given(text=random_texts("sum", "sum in place"), options=st.sampled_from(OPTIONS))
@pytest.mark.usefixtures("alone")
def test_random_programs(text: str, options: str) -> None:
    """Results and arguments equal those of the original program, with any reads or in-place changes after a
    sum.
    """
    torch.manual_seed(0)
    found = []
    args = [torch.randn(8, 8) / 3 for _ in range(3)]
    for artifact in lowered_pair(parse_program(text), options):
        given = [x.clone() for x in args]
        made = Interpreter(artifact, py_wrapper.TORCH_MACHINE)(*given)
        found.append((*made, *given))
    torch.testing.assert_close(*found)
