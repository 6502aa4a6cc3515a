"""Processes of drivers: pinned to processors, asked in turn."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

Numbers = Mapping[str, float]


def parse_answer(line: str) -> dict[str, float]:
    """Numbers by name, of a line of NAME=NUMBER words."""
    pairs = (word.split("=", 1) for word in line.split())
    return {name: float(number) for name, number in pairs}


@contextlib.contextmanager
def pinned(count: int) -> Iterator[None]:
    """Starts processes on the last `count` processors of this one's.

    They precede other processes if this user may have that: threads that wait for each other cannot be timed
    while another process has one's processor.
    """
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(own)[-count:])
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, own)


@dataclass(frozen=True, slots=True)
class Command:
    """A driver with a model and a case; `variables` are added to the environment."""

    driver: Path
    model: Path
    case: Path
    variables: Mapping[str, str]

    def words(self, threads: int, *action: str) -> list[str]:
        """The words of a command line."""
        return [str(self.driver), str(self.model), str(self.case), str(threads), *action]

    def environment(self, threads: int) -> dict[str, str]:
        """Variables of the process: OpenMP has `threads`."""
        return {**os.environ, "OMP_NUM_THREADS": str(threads), **self.variables}


@dataclass(frozen=True, slots=True)
class Finished:
    """What a driver answered: numbers by name, and its shared libraries."""

    numbers: Numbers
    libraries: Sequence[Path]


def run_driver(command: Command, threads: int, *action: str) -> Finished:
    """Runs a driver to its end. Raises RuntimeError with what it wrote if it fails.

    Adds `began`, the moment before it was started, on the clock of its `wall`.
    """
    with pinned(threads):
        began = time.monotonic_ns()
        done = subprocess.run(
            command.words(threads, *action), env=command.environment(threads), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:] or f"it ended with {done.returncode}")
    *lines, last = done.stdout.splitlines()
    libraries = [Path(line.removeprefix("library ")) for line in lines]
    return Finished({**parse_answer(last), "began": float(began)}, libraries)


class Server:
    """A driver that answers to requests, until the end of the block."""

    def __init__(self, command: Command, threads: int, action: str = "serve") -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # `__exit__` closes it
        with pinned(threads):
            self._process = subprocess.Popen(
                command.words(threads, action), env=command.environment(threads), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            )  # fmt: skip

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    @property
    def id(self) -> int:
        """The id of its process."""
        return self._process.pid

    def ask(self, line: str) -> dict[str, float]:
        """Sends a request, and returns the numbers of its answer."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, float]:
        """Waits for a line, and returns its numbers. Raises RuntimeError if the process has ended."""
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(self._errors.read()[-2000:] or "it has ended")
        return parse_answer(found)
