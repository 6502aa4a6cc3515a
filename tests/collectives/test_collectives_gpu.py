"""Programs with collectives on two GPUs (NCCL): every engine equals eager mode, C++ libraries too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.collective_cases import CASES, WORLD
from tests.collectives.processes import run_cases

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]


def test_two_processes(tmp_path: Path) -> None:
    run_cases(tmp_path, WORLD, [*CASES], "--device", "cuda")


def test_two_processes_of_cpp(tmp_path: Path) -> None:
    """One case of each kind; `test_collectives.py` has all on a CPU."""
    names = [
        "all_reduce",
        "gather_and_scatter",
        "coalesced",
        "uneven_splits",
        "in_flight_together",
        "in_a_loop",
    ]
    run_cases(tmp_path, WORLD, names, "--device", "cuda", "--ways", "cpp")
