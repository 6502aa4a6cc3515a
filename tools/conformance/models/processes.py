"""Statements about models in separate processes, which may end or hang."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[3]

# Any: JSON
Result = dict[str, Any]
"""One line of a file of results: `name`, `statement`, `error`, and what else a tool writes about a case."""
Job = tuple[str, str]
"""A model's name and a statement about it."""
Lost = Callable[[Job, str, str], Result]
"""Makes the result of a job whose process ended: of the job, the side that ran, and the failure."""


def run_jobs(worker: Sequence[str], jobs: Sequence[Job], timeout: float, lost: Lost) -> Iterator[Result]:
    """Runs jobs in one process, in order; if it ends, it decides the current job, and another one runs the rest.

    A worker gets an argument for each job (`parse_job`). It prints a line of JSON for each side that it comes
    to (`at`), and one for each result.
    """
    rest = list(jobs)
    while rest:
        side = "ours"
        with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
            command = [*worker, *(":".join(job) for job in rest)]
            with subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process:
                watch = _Watch(process, timeout)
                try:
                    for fact in _facts(process):
                        side = fact.get("at", "ours")
                        if "error" in fact:
                            watch.restart()
                            rest.pop(0)
                            yield fact
                finally:
                    watch.stop()
            if rest:
                how = f"no answer in {timeout:g} s" if watch.is_expired else _end_of(process, log)
                yield lost(rest.pop(0), side, how)


def parse_job(text: str) -> Job:
    """Returns the job of a worker's argument."""
    name, _, statement = text.rpartition(":")
    return name, statement


class _Watch:
    """Kills a process that gives no result in time."""

    def __init__(self, process: subprocess.Popen[str], timeout: float) -> None:
        self._process, self._timeout, self.is_expired = process, timeout, False
        self._start()

    def _start(self) -> None:
        self._timer = threading.Timer(self._timeout, self._expire)
        self._timer.start()

    def _expire(self) -> None:
        self.is_expired = True
        self._process.kill()

    def restart(self) -> None:
        """Begins the time of the next result."""
        self._timer.cancel()
        self._start()

    def stop(self) -> None:
        """Ends the process, which has closed its output or is not needed any more."""
        self._timer.cancel()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _facts(process: subprocess.Popen[str]) -> Iterator[Result]:
    assert process.stdout is not None  # it is a pipe
    return (json.loads(line) for line in process.stdout if line.startswith("{"))


def _end_of(process: subprocess.Popen[str], log: IO[str]) -> str:
    log.seek(0)
    return f"the process ended with {process.returncode}: {log.read()[-300:]}"


def stored_results(file: Path) -> Iterator[tuple[Job, Result]]:
    """Yields the results of a file by name and statement; there is none if the file is missing."""
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            yield (result["name"], result["statement"]), result
