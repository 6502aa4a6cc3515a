"""Matmuls fused with collectives equal the unfused ones, through every engine.

`test_parallel.py` does the same with several processes, `test_fused_matmuls_gpu.py` with torch's own
operators.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings

import py_wrapper
from tests.collectives.collective_cases import lonely_group
from tests.collectives.fused_cases import engines, fused, operators_of_cpu, program
from tests.collectives.random_programs import random_texts
from wrapper_ir import parse_program
from wrapper_ir_runtime.interp import Interpreter


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This process is all of group 0, and has the fused operators."""
    with lonely_group(tmp_path_factory.mktemp("group")), operators_of_cpu():
        yield


@pytest.mark.parametrize("engine", engines())
@pytest.mark.usefixtures("alone")
def test_one_process(engine: str) -> None:
    torch.manual_seed(0)
    args = torch.randn(4, 2, 8), torch.randn(16, 8), torch.randn(8, 16), torch.randn(16, 8)
    usual, other = fused(program(1))
    targets = {e.name.rpartition("::")[2] for e in other.program.externs}
    assert targets >= {"fused_all_gather_matmul", "fused_matmul_reduce_scatter"}
    want = Interpreter(usual, py_wrapper.TORCH_MACHINE)(*args)
    torch.testing.assert_close(tuple(engines()[engine](other)(*args)), tuple(want))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(text=random_texts("gather", "scatter"))
@pytest.mark.usefixtures("alone")
def test_random_programs(text: str) -> None:
    """Results and arguments equal those of the unfused program, with any in-place changes in between."""
    torch.manual_seed(0)
    found = []
    args = [torch.randn(8, 8) / 3 for _ in range(3)]
    for artifact in fused(parse_program(text)):
        given = [x.clone() for x in args]
        made = Interpreter(artifact, py_wrapper.TORCH_MACHINE)(*given)
        found.append((*made, *given))
    torch.testing.assert_close(*found)
