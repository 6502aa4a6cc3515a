"""C++ libraries with memory of their group, on two GPUs.

They equal emitted Python and the library's collectives. 10,000 calls add no memory, none remains when the
group ends, and processes that differ raise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.group_memory_cpp_worker import CASES, WORLD
from tests.collectives.processes import run_workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "group_memory_cpp_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    for found in run_workers(tmp_path, WORKER, WORLD, [*CASES]):
        print(found["many_calls"])
