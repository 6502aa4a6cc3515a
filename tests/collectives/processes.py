"""Processes of a group: started, waited for, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "collective_worker.py"


LIMIT = 400


def start(rank: int, folder: Path, worker: Path = WORKER, *args: str) -> subprocess.Popen[bytes]:
    """Starts a process in a separate session, so that its compilers end with it."""
    env = {
        **os.environ,
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    with (folder / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(worker), str(rank), str(folder), *args],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=worker.parents[2],
            start_new_session=True,
        )


def finish(workers: list[subprocess.Popen[bytes]]) -> None:
    """Waits for all, or until one fails: the others may then wait forever."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        codes = [w.poll() for w in workers]
        if all(c is not None for c in codes) or any(codes):
            return
        time.sleep(0.2)


def end(worker: subprocess.Popen[bytes]) -> None:
    """Ends all processes of the worker's session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def outcome(folder: Path, rank: int) -> dict[str, Any]:  # Any: JSON
    """Returns the output of the process of this rank."""
    path = folder / f"rank{rank}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def run_workers(
    folder: Path, worker: Path, world: int, names: Sequence[str], *args: str
) -> list[dict[str, Any]]:  # Any: JSON
    """Runs a worker on `world` processes, each of which must end well and write the outcomes of these steps,
    in order.

    Returns the output of each. A step has failed if its outcome is a text, or has one under `failure`.
    """
    workers = [start(rank, folder, worker, *args) for rank in range(world)]
    try:
        finish(workers)
    finally:
        for one in workers:
            end(one)
    written = [outcome(folder, rank) for rank in range(world)]
    for rank, found in enumerate(written):
        log = (folder / f"rank{rank}.log").read_text(encoding="utf-8", errors="replace")[-3000:]
        said = {
            name: step["failure"] if isinstance(step, dict) and "failure" in step else step
            for name, step in found.items()
        }
        failures = [f"{name}: {text}" for name, text in said.items() if text and isinstance(text, str)]
        assert not failures, f"rank {rank}\n" + "\n".join(failures)
        assert list(found) == [*names], f"rank {rank} stopped after {[*found][-1:]}\n{log}"
    assert [one.returncode for one in workers] == [0] * world
    return written


def run_cases(folder: Path, world: int, names: Sequence[str], *args: str) -> None:
    """Runs cases by name in `collective_worker.py` on several processes.

    Raises AssertionError if one fails.
    """
    run_workers(folder, WORKER, world, names, "--world", str(world), *args, *names)
