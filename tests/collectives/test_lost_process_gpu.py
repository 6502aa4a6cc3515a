"""A process is killed (SIGKILL) while another one, on a second GPU, calls programs with it.

The programs have asynchronous collectives of every emitter, and captured ones. The other process ends with
WIR935 within the time-out of the group.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import torch

from tests.collectives.lost_gpu_worker import CASES, PATIENCE, WORLD
from tests.collectives.processes import end, start

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < WORLD, reason=f"{WORLD} GPUs are needed"),
]
WORKER = Path(__file__).parent / "lost_gpu_worker.py"
BEGIN = 100.0
"""Seconds that all cases together have for their first calls."""


class Pair:
    """Two processes of one case, and their outcomes."""

    def __init__(self, case: str, folder: Path) -> None:
        self.case, self.folder = case, folder
        folder.mkdir()
        self.workers = [start(rank, folder, WORKER, case) for rank in range(WORLD)]
        self.killed = 0.0
        self.seconds = 0.0
        """From the kill to the other one's end; 0 while it lives."""

    def log(self, rank: int = 0) -> str:
        return (self.folder / f"rank{rank}.log").read_text(encoding="utf-8", errors="replace")[-3000:]

    def look(self) -> bool:
        """Returns whether both have finished; kills the second process a second after both have begun."""
        codes = [worker.poll() for worker in self.workers]
        if self.killed:
            if codes[0] is not None and not self.seconds:
                self.seconds = time.monotonic() - self.killed
            return bool(self.seconds)
        if any(code is not None for code in codes):
            return True
        marks = [self.folder / f"running{rank}" for rank in range(WORLD)]
        if all(mark.exists() and time.time() - mark.stat().st_mtime > 1 for mark in marks):
            self.workers[1].send_signal(signal.SIGKILL)
            self.killed = time.monotonic()
        return False


def _all_seen(pairs: list[Pair]) -> bool:
    seen = [pair.look() for pair in pairs]  # each is looked at
    return all(seen)


def test_every_case_ends_in_time(tmp_path: Path) -> None:
    pairs = [Pair(case, tmp_path / str(at)) for at, case in enumerate(CASES)]
    try:
        deadline = time.monotonic() + BEGIN + 2 * PATIENCE
        while time.monotonic() < deadline and not _all_seen(pairs):
            time.sleep(0.1)
    finally:
        for worker in (worker for pair in pairs for worker in pair.workers):
            end(worker)
    for pair in pairs:
        print(f"{pair.case}: {pair.seconds:.1f} s, status {pair.workers[0].returncode}")
    for pair in pairs:
        assert pair.killed, f"{pair.case} did not begin\n{pair.log(0)}\n{pair.log(1)}"
        assert pair.seconds, f"{pair.case}: rank 0 was still there {2 * PATIENCE} s later\n{pair.log()}"
        assert (pair.workers[0].returncode, "WIR935" in pair.log()) == (-signal.SIGABRT, True), pair.log()
        assert pair.seconds <= PATIENCE, f"{pair.case}: {pair.seconds:.1f} s"
