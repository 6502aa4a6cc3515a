"""Symmetric memory on two GPUs: two processes sum what each holds, through interpreter, emitted Python and FX graphs; programs with every kernel
of `lower-collectives` equal those with the library's collectives."""

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
STEPS = 8


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
        failures = [f"{name}: {said}" for name, said in found.items() if said and isinstance(said, str)]
        assert not failures, f"rank {rank}\n" + "\n".join(failures)
        assert len(found) == STEPS, f"rank {rank} stopped after {[*found][-1:]}\n{log}"
        print(found["scattered"])
    assert [w.returncode for w in workers] == [0] * WORLD
