"""Symmetric memory on two GPUs: two processes sum what each holds, through interpreter, emitted Python and FX graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.collectives.processes import end, finish, outcome, start
from tests.collectives.symmetric_worker import WORLD

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "symmetric_worker.py"
WAYS = 6


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
        assert len(found) == WAYS, f"rank {rank} stopped behind {[*found][-1:]}\n{log}"
    assert [w.returncode for w in workers] == [0] * WORLD
