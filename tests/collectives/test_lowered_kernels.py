"""Kernels over symmetric memory give what collectives gave, through every engine; `test_parallel.py` does the same with several processes,
`test_symmetric_gpu.py` with torch's own kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.collective_cases import WORLD, lonely_group
from tests.collectives.fused_cases import engines
from tests.collectives.lowered_cases import OPTIONS, lowered_pair, on_host, program
from wrapper_ir.passes import Form


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
    product = x @ w
    share = slice(8 * rank, 8 * rank + 8)
    want = 2 * product, 2 * (product @ w)[share], 2 * x[share], 2 * (2 * product @ w)
    with lonely_group(tmp_path), on_host(lambda tensor, _: 2 * tensor, rank, WORLD):
        torch.testing.assert_close(tuple(engines()[engine](other)(x, w)), want)
