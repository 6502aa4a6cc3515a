"""A process hangs, and is killed, while another one waits for its part of collectives in flight: each engine
raises an error in bounded time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectives.lost_worker import ENGINES, LOST, PATIENCE
from tests.collectives.processes import end, outcome, start

WORKER = Path(__file__).parent / "lost_worker.py"


@pytest.mark.conformance
def test_every_engine_ends_in_time(tmp_path: Path) -> None:
    """Within twice the time-out of the group: each of two sums may wait for so long."""
    workers = [start(rank, tmp_path, WORKER) for rank in range(2)]
    try:
        workers[0].wait(400)
    finally:
        for worker in workers:
            end(worker)
    found = outcome(tmp_path, 0)
    assert found, (tmp_path / "rank0.log").read_text(errors="replace")[-3000:]
    for how in LOST:
        assert list(found[how]) == [*ENGINES]
        for engine, one in found[how].items():
            assert one["error"].startswith("WIR927 "), (how, engine, one)
            assert one["seconds"] < 2 * PATIENCE + 5, (how, engine, one)
    assert "WIR937" in found["compares"]["artifact"]["error"]
