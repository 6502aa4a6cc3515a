"""What Inductor itself moves to symmetric memory, on two GPUs: captured and compiled programs equal eager mode through every engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.collective_cases import WORLD
from tests.collectives.inductor_choice_worker import CASES
from tests.collectives.processes import end, finish, outcome, start

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "inductor_choice_worker.py"


def test_two_processes(tmp_path: Path) -> None:
    workers = [start(rank, tmp_path, WORKER) for rank in range(WORLD)]
    try:
        finish(workers)
    finally:
        for worker in workers:
            end(worker)
    for rank in range(WORLD):
        found = outcome(tmp_path, rank)
        log = (tmp_path / f"rank{rank}.log").read_text(encoding="utf-8", errors="replace")[-3000:]
        failures = [f"{name}: {failure}" for name, failure in found.items() if failure]
        assert not failures, f"rank {rank}\n" + "\n".join(failures)
        assert list(found) == list(CASES), f"rank {rank} stopped after {[*found][-1:]}\n{log}"
