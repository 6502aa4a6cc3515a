"""A bounded pool of compiler processes, as a standard executor.

The processes are forked from a server (`forking`): they do not inherit this process's threads and locks, do
not rerun its main program, and do not repeat the server's imports. A process that dies loses only its own
job.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from triton_runtime import errors
from triton_runtime.compile.forking import Forker, WorkerDied
from triton_runtime.compile.worker import read_message, write_message

_LAST_WORDS = 2000  # characters of what a dead process printed
# seconds between the end of a process's socket and its own end
_LEAVING = 5.0


class WorkerPool(Executor):
    """Runs functions on bytes in at most `max_workers` processes, each started on demand.

    `timeout` limits the seconds of one job; then its process is killed and the future raises TimeoutError.
    `modules` are imported before a process is forked. `forker` forks processes; None creates one that the
    pool owns.
    """

    def __init__(
        self,
        max_workers: int,
        timeout: float | None = None,
        *,
        modules: Sequence[str] = (),
        forker: Forker | None = None,
    ) -> None:
        self._timeout, self._modules = timeout, modules
        self._forker, self._owned = forker or Forker(), forker is None
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._threads = ThreadPoolExecutor(max_workers, thread_name_prefix="triton-compile")

    # Any: the signature of the standard library
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs `fn(data)` in a process. `fn` is a module-level function from bytes to bytes."""
        [data] = args
        if kwargs or not isinstance(data, bytes):
            raise TypeError("functions of this pool take one argument, which is bytes")
        return self._threads.submit(self._run, f"{fn.__module__}:{fn.__qualname__}", data)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends all processes after their jobs."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        idle: list[_Worker] = []
        with suppress(queue.Empty):
            while True:
                idle.append(self._idle.get_nowait())
        # all at once: each takes some 10 ms to release its memory
        for worker in idle:
            worker.signal()
        for worker in idle:
            worker.kill()
        if self._owned:
            self._forker.close()

    def pids(self) -> list[int]:
        """Process ids of idle workers."""
        return [worker.pid for worker in self._idle.queue]

    def _run(self, name: str, data: bytes) -> bytes:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker(self._forker, self._modules)
        try:
            result = worker.ask(name, data, self._timeout)
        except BaseException:
            worker.kill()
            raise
        self._idle.put(worker)
        return _unpack(result)


def _unpack(result: bytes) -> bytes:
    match result[:1]:
        case b"=":
            return result[1:]
        case b"!":
            kind, code, message, hint = json.loads(result[1:])
            raise getattr(errors, kind)(code, message, hint)
        case _:
            raise RuntimeError(result[1:].decode())


class _Worker:
    """One process, used by one thread at a time."""

    def __init__(self, forker: Forker, modules: Sequence[str]) -> None:
        self._forker = forker
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._cache = tempfile.mkdtemp(prefix="triton-worker-")
        # Triton's own cache could return files of another user
        variables = dict(os.environ) | {"TRITON_CACHE_DIR": self._cache}
        self.pid, self._socket = forker.fork(modules, variables, self._printed.fileno())
        self._requests, self._results = self._socket.makefile("wb"), self._socket.makefile("rb")

    def ask(self, name: str, data: bytes, timeout: float | None) -> bytes:
        """Runs one job. Raises WorkerDied or TimeoutError, after which the process must be killed."""
        self._socket.settimeout(timeout)
        try:
            write_message(self._requests, name.encode(), b"\n", data)
            result = read_message(self._results)
        except TimeoutError as error:
            raise TimeoutError(f"a compiler process took longer than {timeout:g} s") from error
        except OSError:
            result = None
        if result is not None:
            return result
        status = self._forker.ended(self.pid, _LEAVING)
        raise WorkerDied(f"a compiler process ended with status {status}{self._last_words()}")

    def signal(self) -> None:
        """Kills the process; `kill` waits for it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kills the process at once.

        An idle process has no state to save, and an interpreter with torch loaded may take seconds to exit.
        """
        self._forker.ended(self.pid, 0.0)
        # the rest of an unsent request
        with suppress(OSError):
            self._requests.close()
        self._results.close()
        self._socket.close()
        self._printed.close()
        # a killed process does not remove it
        shutil.rmtree(self._cache, ignore_errors=True)

    def _last_words(self) -> str:
        self._printed.seek(0)
        words = self._printed.read().decode(errors="replace").strip()
        return f":\n{words[-_LAST_WORDS:]}" if words else ""
