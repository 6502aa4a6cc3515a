"""Memory registered with NCCL, on two GPUs.

Two processes equal eager through interpreter, emitted Python, FX graphs and `torch.compile`. Nothing is
registered twice, and nothing remains when the group ends.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.processes import run_workers
from tests.collectives.registered_worker import STEPS, WORLD

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "registered_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    for found in run_workers(tmp_path, WORKER, WORLD, STEPS):
        print(found["counts"], found["times"])
