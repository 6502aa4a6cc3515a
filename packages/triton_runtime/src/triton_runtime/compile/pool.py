"""A bounded pool of compiler processes, as a standard executor.

The processes are forked from a server (`forking`): they neither inherit this process's threads and locks, nor run its main
program again, nor import again what the server has. One that dies takes only its own job with it.
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
_LEAVING = 5.0  # seconds between the end of a process's socket and its own


class WorkerPool(Executor):
    """Runs functions that take and return bytes, in at most `max_workers` processes, each started when needed.

    `timeout`: seconds for one job; its process is then killed, and the future raises TimeoutError. `modules` are imported
    before a process is forked. `forker`: forks processes; None: one of the pool's own, for as long as the pool is there.
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
        """Runs `fn(data)` in a process. `fn` is a function of a module; it takes one argument, bytes, and returns bytes."""
        [data] = args
        if kwargs or not isinstance(data, bytes):
            raise TypeError("functions of this pool take one argument, which is bytes")
        return self._threads.submit(self._run, f"{fn.__module__}:{fn.__qualname__}", data)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends all processes, when their jobs are done."""
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        idle: list[_Worker] = []
        with suppress(queue.Empty):
            while True:
                idle.append(self._idle.get_nowait())
        for worker in idle:  # all at once: to give back its memory takes each some 10 ms
            worker.signal()
        for worker in idle:
            worker.kill()
        if self._owned:
            self._forker.close()

    def pids(self) -> list[int]:
        """Processes that are idle now."""
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
    """One process, asked by one thread at a time."""

    def __init__(self, forker: Forker, modules: Sequence[str]) -> None:
        self._forker = forker
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._cache = tempfile.mkdtemp(prefix="triton-worker-")
        # Triton's own cache would serve what someone else put there
        variables = dict(os.environ) | {"TRITON_CACHE_DIR": self._cache}
        self.pid, self._socket = forker.fork(modules, variables, self._printed.fileno())
        self._requests, self._results = self._socket.makefile("wb"), self._socket.makefile("rb")

    def ask(self, name: str, data: bytes, timeout: float | None) -> bytes:
        """One job. Raises WorkerDied, or TimeoutError; the process is of no use then."""
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
        """Has the process end; `kill` waits for that."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Ends the process at once: one that is idle has nothing to lose, and an interpreter that has loaded torch may take
        seconds to leave by itself."""
        self._forker.ended(self.pid, 0.0)
        with suppress(OSError):  # over what was still to be written to it
            self._requests.close()
        self._results.close()
        self._socket.close()
        self._printed.close()
        shutil.rmtree(self._cache, ignore_errors=True)  # where the process was killed

    def _last_words(self) -> str:
        self._printed.seek(0)
        words = self._printed.read().decode(errors="replace").strip()
        return f":\n{words[-_LAST_WORDS:]}" if words else ""
