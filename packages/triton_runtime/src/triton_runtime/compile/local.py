"""Compiles kernels in this process while the server that compiler processes are forked from starts.

Kernels take 0.1 to 0.3 s each, the server about a second, so that the first few are compiled sooner here. A thread does it, one
kernel at a time: parts of Triton's compiler hold the interpreter's lock, others are the same in all threads of a process.
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
"""Until the server can fork, and a process that it forked has begun to compile."""
_IMPORT_SECONDS = 0.6
_FIRST_SECONDS = 0.1
"""What the first kernel takes beyond its own compilation: Triton imports its code generator and starts LLVM and `ptxas`."""
_KERNEL_SECONDS = 0.15


@dataclass(slots=True)
class LocalCompiler:
    """What is known about compiling in this process: how many kernels were, in how many seconds.

    `run` compiles one: `compile_job`, but in tests.
    """

    run: Callable[[bytes], bytes] = compile_job
    kernels: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while a kernel is compiled."""

    def seconds_for(self, count: int) -> float:
        """How long `count` kernels would take."""
        if self.kernels:
            return count * self.seconds / self.kernels
        imported = "triton.compiler" in sys.modules
        return (0.0 if imported else _IMPORT_SECONDS) + _FIRST_SECONDS + count * _KERNEL_SECONDS

    def needs_server(self, count: int) -> bool:
        """Whether a server that is not there yet would have `count` kernels compiled sooner."""
        return self.seconds_for(count) > _SERVER_SECONDS + _KERNEL_SECONDS

    def patience(self, age: float) -> float:
        """How many seconds to wait for a server that was started `age` seconds ago: until it is expected, where that is before
        a kernel would be compiled here."""
        left = _SERVER_SECONDS - age
        return left if 0.0 < left < self.seconds_for(1) else 0.0


class LocalCompilation:
    """Compiles jobs one after another, on a thread of its own, from when it is made."""

    def __init__(self, compiler: LocalCompiler, jobs: Mapping[str, CompileJob]) -> None:
        self.compiled: dict[str, bytes] = {}
        """What was compiled, by key."""
        self.failed: list[str] = []
        """Keys of jobs that raised: a compiler process says why."""
        self._compiler = compiler
        self._jobs = jobs
        self._left = deque(jobs)
        self._begun: tuple[str, float] | None = None  # the job that is being compiled, and since when
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="triton-compile-local", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether nothing is being compiled any more, after at most `seconds`."""
        return self._ended.wait(seconds)

    def overdue(self, timeout: float | None) -> str | None:
        """The key of the job that has been compiled for longer than `timeout` seconds; it cannot be ended."""
        begun = self._begun
        if timeout is None or begun is None or time.monotonic() - begun[1] < timeout:
            return None
        return begun[0]

    def stop(self) -> list[str]:
        """Begins no other job; the keys of those that were not begun."""
        with self._lock:
            left = list(self._left)
            self._left.clear()
        return left

    def _run(self) -> None:
        try:
            while self._compile_next():
                pass
        finally:
            self._ended.set()

    def _compile_next(self) -> bool:
        # Whoever holds the second may be waiting for these kernels: their processes do not need it.
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
        except Exception:  # whatever it is, a compiler process finds it, too
            self.failed.append(key)
            return
        self._compiler.kernels += 1
        self._compiler.seconds += time.monotonic() - begin
