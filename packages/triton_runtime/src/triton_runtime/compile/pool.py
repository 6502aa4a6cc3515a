"""A bounded pool of compiler processes, as a standard executor.

The processes are plain children that speak over pipes: they neither inherit this process's threads and locks, nor run its
main program again. One that dies takes only its own job with it.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from triton_runtime import errors
from triton_runtime.compile.worker import read_message, write_message

__all__ = ["WorkerDied", "WorkerPool"]

_LAST_WORDS = 2000  # characters of a dead process's errors


class WorkerDied(BrokenExecutor):
    """A process ended while it worked on a job; the message has its exit status and last words."""


class WorkerPool(Executor):
    """Runs functions that take and return bytes, in at most `max_workers` processes, each started when needed.

    `timeout`: seconds for one job; its process is then killed, and the future raises TimeoutError.
    """

    def __init__(self, max_workers: int, timeout: float | None = None) -> None:
        self._timeout = timeout
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
        while True:
            try:
                self._idle.get_nowait().kill()
            except queue.Empty:
                return

    def pids(self) -> list[int]:
        """Processes that are idle now."""
        return [worker.pid for worker in self._idle.queue]

    def _run(self, name: str, data: bytes) -> bytes:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker()
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

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._cache = tempfile.mkdtemp(prefix="triton-worker-")
        self._process = subprocess.Popen(
            # -P: the folder that we happen to run in is no place for modules
            [sys.executable, "-P", "-m", "triton_runtime.compile.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"TRITON_CACHE_DIR": self._cache},
        )
        self.pid = self._process.pid

    def ask(self, name: str, data: bytes, timeout: float | None) -> bytes:
        """One job. Raises WorkerDied, or TimeoutError; the process is of no use then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(timeout, self._stop, (late,)) if timeout is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            write_message(self._process.stdin, name.encode(), b"\n", data)  # type: ignore[arg-type]  # a buffered pipe
            result = read_message(self._process.stdout)  # type: ignore[arg-type]  # a buffered pipe
        except OSError:
            result = None
        finally:
            if timer is not None:
                timer.cancel()
        if result is not None:
            return result
        if late.is_set():
            raise TimeoutError(f"a compiler process took longer than {timeout:g} s")
        status = self._process.wait()
        raise WorkerDied(f"a compiler process ended with status {status}{self._last_words()}")

    def kill(self) -> None:
        """Ends the process at once: one that is idle has nothing to lose, and an interpreter that has loaded torch may take
        seconds to leave by itself."""
        self._process.kill()
        assert self._process.stdin is not None
        with suppress(OSError):  # over what was still to be written to it
            self._process.stdin.close()
        self._close()

    def _close(self) -> None:
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
        shutil.rmtree(self._cache, ignore_errors=True)  # where the process was killed

    def _stop(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _last_words(self) -> str:
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        return f":\n{words[-_LAST_WORDS:]}" if words else ""
