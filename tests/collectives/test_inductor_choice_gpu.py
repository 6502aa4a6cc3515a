"""Buffers that Inductor itself moves to symmetric memory, on two GPUs: every engine equals eager mode,
captured and compiled.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.collective_cases import WORLD
from tests.collectives.inductor_choice_worker import CASES
from tests.collectives.processes import run_workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "inductor_choice_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    run_workers(tmp_path, WORKER, WORLD, [*CASES])
