"""Symmetric memory on two GPUs.

Two processes sum each other's memory, through interpreter, emitted Python and FX graphs. Programs with every
kernel of `lower-collectives` equal those with the library's collectives.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.processes import run_workers
from tests.collectives.symmetric_worker import STEPS, WORLD

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "symmetric_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    for found in run_workers(tmp_path, WORKER, WORLD, STEPS):
        print(found["scattered"])
