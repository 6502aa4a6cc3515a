"""Worker processes that may hang or crash without stopping the run."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.conformance.cases import CaseId

BUILD = "build_cpp"
"""Name of a job that builds libraries and checks nothing."""
WORKER = (sys.executable, "-m", "tools.conformance.worker")
"""The command of a worker that checks kernels in C++."""


class PoolError(RuntimeError):
    """Workers cannot start: nothing that a case does."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `what` is "ours" or "stock" for all stages.

    "fx" or "stock_fx" for graphs, "cpp" or "stock_cpp" for libraries, "planned" for plans. BUILD builds the
    libraries of several cases: the first one and those in `more`.
    """

    what: str
    case: CaseId
    more: tuple[CaseId, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer. `done` is None if it crashed or ran out of time: then `lost` describes how, and `at`
    is the step that it had announced.
    """

    job: Job
    seconds: float
    done: dict[str, Any] | None
    lost: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Options in seconds: `timeout` for one job, `start` for a worker's imports, `budget` for everything
    (None: no limit).

    A worker is replaced after `jobs` jobs, so that compilers' memory does not accumulate. Workers' standard
    error is written to files in `logs`.
    """

    logs: Path
    workers: int = 2
    timeout: float = 300.0
    start: float = 300.0
    budget: float | None = None
    jobs: int = 200
    command: Sequence[str] = WORKER
    env: tuple[tuple[str, str], ...] = ()


class _Worker:
    """One process and its current job."""

    def __init__(self, number: int, options: PoolOptions) -> None:
        self.log_file = options.logs / f"worker{number}.log"
        self.log = self.log_file.open("ab")
        self.options = options
        self.process = subprocess.Popen(
            list(options.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, **dict(options.env)},
            start_new_session=True,  # its compilers go with it
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.job: Job | None = None
        self.at, self.buffer, self.ready, self.answered = "", b"", False, 0
        self.since = time.monotonic()

    def give(self, job: Job) -> None:
        self.job, self.at, self.since = job, "", time.monotonic()
        with suppress(BrokenPipeError):  # it died while idle: reading its output detects it
            self.input.write(json.dumps(asdict(job)).encode() + b"\n")
            self.input.flush()

    @property
    def late(self) -> bool:
        limit = self.options.timeout if self.ready else self.options.start
        return self.job is not None and time.monotonic() - self.since > limit

    def read(self) -> Answer | None:
        """Returns the available answer once the output is readable, also after the process has ended."""
        chunk = os.read(self.output.fileno(), 1 << 16)
        if not chunk:
            return self.lose(_end(self.process.wait()))
        self.buffer += chunk
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            message = json.loads(line)
            if not self.ready:
                self.ready, self.since = True, time.monotonic()
            if "at" in message:
                self.at = message["at"]
            else:
                return self._answer(message["done"])
        return None

    def _answer(self, done: dict[str, Any] | None, lost: str = "") -> Answer:
        assert self.job is not None
        answer = Answer(self.job, time.monotonic() - self.since, done, lost, self.at)
        self.job = None
        self.answered += 1
        return answer

    def lose(self, how: str) -> Answer:
        self.stop()
        if not self.ready:
            raise PoolError(
                f"a worker ended before it was ready ({how}); its messages are in {self.log_file}"
            )
        return self._answer(None, how)

    def stop(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.output, self.log):
            stream.close()


def _end(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def run_jobs(jobs: Iterable[Job], options: PoolOptions) -> Generator[Answer]:
    """Yields answers to all jobs as they arrive; with a budget, to those that fit.

    Closing the iterator ends the workers. Raises PoolError if a worker cannot start.
    """
    options.logs.mkdir(parents=True, exist_ok=True)
    waiting = iter(jobs)
    end = None if options.budget is None else time.monotonic() + options.budget
    pool: dict[int, _Worker] = {}
    try:
        for number in range(options.workers):
            _feed(pool, number, waiting, options)
        while pool and (end is None or time.monotonic() < end):
            for number, answer in _answers(pool):
                yield answer
                _feed(pool, number, waiting, options)
    finally:
        for worker in pool.values():
            worker.stop()


def _feed(pool: dict[int, _Worker], number: int, waiting: Iterator[Job], options: PoolOptions) -> None:
    """Assigns the next job to worker `number`, with a new process if the old one ended or reached its limit."""
    job = next(waiting, None)
    worker = pool.pop(number, None)
    if worker is not None and (
        job is None or worker.process.poll() is not None or worker.answered >= options.jobs
    ):
        worker.stop()
        worker = None
    if job is not None:
        pool[number] = worker or _Worker(number, options)
        pool[number].give(job)


def _answers(pool: dict[int, _Worker]) -> list[tuple[int, Answer]]:
    """Returns the answers of the last second, and overdue jobs."""
    answers: list[tuple[int, Answer]] = []
    with selectors.DefaultSelector() as selector:
        for number, worker in pool.items():
            selector.register(worker.output, selectors.EVENT_READ, number)
        for key, _ in selector.select(timeout=1.0):
            answer = pool[key.data].read()
            if answer is not None:
                answers.append((key.data, answer))
    answered = {number for number, _ in answers}
    for number, worker in pool.items():
        if number not in answered and worker.late:
            limit = worker.options.timeout if worker.ready else worker.options.start
            answers.append((number, worker.lose(f"no answer within {limit:g} s")))
    return answers
