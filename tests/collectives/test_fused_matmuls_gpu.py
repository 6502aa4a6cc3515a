"""Matmuls fused with collectives on two GPUs, by torch's own operators.

They run through every engine, and in a sequence-parallel MLP.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.fused_worker import CASES, WORLD
from tests.collectives.processes import run_workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "fused_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    run_workers(tmp_path, WORKER, WORLD, [*CASES])
