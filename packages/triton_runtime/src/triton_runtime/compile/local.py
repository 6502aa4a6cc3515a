"""Compiles kernels in this process while the server that compiler processes are forked from starts.

A kernel takes 0.1 to 0.3 s and the server about a second, so the first few are compiled sooner here. One
thread compiles one kernel at a time: parts of Triton's compiler hold the interpreter's lock, others are
shared by all threads of a process.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from triton_runtime._compat import LANGUAGE
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import CompileJob

_SERVER_SECONDS = 1.2
"""Time until the server can fork and the forked process starts to compile."""
_IMPORT_SECONDS = 0.6
_FIRST_SECONDS = 0.1
"""Overhead of the first kernel: Triton imports its code generator and starts LLVM and `ptxas`."""
_KERNEL_SECONDS = 0.15


@dataclass(slots=True)
class LocalCompiler:
    """Statistics of compilation in this process: the number of kernels and the seconds they took.

    `run` compiles one kernel: `compile_job`, except in tests.
    """

    run: Callable[[bytes], bytes] = compile_job
    kernels: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while a kernel is compiled."""

    def seconds_for(self, count: int) -> float:
        """Estimated seconds to compile `count` kernels."""
        if self.kernels:
            return count * self.seconds / self.kernels
        imported = "triton.compiler" in sys.modules
        return (0.0 if imported else _IMPORT_SECONDS) + _FIRST_SECONDS + count * _KERNEL_SECONDS

    def needs_server(self, count: int) -> bool:
        """True if starting a server would finish `count` kernels sooner."""
        return self.seconds_for(count) > _SERVER_SECONDS + _KERNEL_SECONDS

    def patience(self, age: float) -> float:
        """Seconds to wait for a server that was started `age` seconds ago.

        The wait lasts until the server is expected, if that is before a kernel would be compiled here;
        otherwise 0.
        """
        remaining = _SERVER_SECONDS - age
        return remaining if 0.0 < remaining < self.seconds_for(1) else 0.0


class LocalCompilation:
    """Compiles jobs one after another on a dedicated thread, starting on construction."""

    def __init__(self, compiler: LocalCompiler, jobs: Mapping[str, CompileJob]) -> None:
        self.compiled: dict[str, bytes] = {}
        """Compiled kernels by key."""
        self.failed: list[str] = []
        """Keys of jobs that raised: a compiler process says why."""
        self._compiler = compiler
        self._jobs = jobs
        self._left = deque(jobs)
        # the current job and its start time
        self._begun: tuple[str, float] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="triton-compile-local", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits at most `seconds`; True if no compilation is running."""
        return self._ended.wait(seconds)

    def overdue(self, timeout: float | None) -> str | None:
        """The key of a job that has been compiling for longer than `timeout` seconds; it cannot be
        stopped."""
        begun = self._begun
        if timeout is None or begun is None or time.monotonic() - begun[1] < timeout:
            return None
        return begun[0]

    def stop(self) -> list[str]:
        """Starts no further job; returns the keys of those not started."""
        with self._lock:
            remaining = list(self._left)
            self._left.clear()
        return remaining

    def _run(self) -> None:
        try:
            while self._compile_next():
                pass
        finally:
            self._ended.set()

    def _compile_next(self) -> bool:
        # the thread that holds LANGUAGE may be waiting for these kernels; compiler processes do not need it
        with self._compiler.lock:
            if not LANGUAGE.acquire(blocking=False):
                return False
            try:
                with self._lock:
                    if not self._left:
                        return False
                    key = self._left.popleft()
                    self._begun = key, time.monotonic()
                self._compile(key)
                self._begun = None
                return True
            finally:
                LANGUAGE.release()

    def _compile(self, key: str) -> None:
        begin = time.monotonic()
        try:
            self.compiled[key] = self._compiler.run(self._jobs[key].to_bytes())
        # a compiler process raises the same error
        except Exception:
            self.failed.append(key)
            return
        self._compiler.kernels += 1
        self._compiler.seconds += time.monotonic() - begin
