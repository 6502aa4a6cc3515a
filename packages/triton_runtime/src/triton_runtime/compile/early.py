"""Kernels that are compiled while the rest of their program is still being made: loading them waits for what has been begun."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from triton_runtime.compile.job import CompileJob
from triton_runtime.protocols import Binary

Results = Mapping[str, Binary | Exception]
"""By the key of a job."""


@dataclass(slots=True)
class EarlyCompilations:
    """Jobs that were begun before anybody asked for their results. Those that nobody has taken when other jobs begin are forgotten: a
    store has them."""

    _pending: dict[str, Future[Results]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _owner: int = field(default_factory=os.getpid)

    def begin(
        self,
        jobs: Sequence[CompileJob],
        compiled: Callable[[Sequence[CompileJob]], Sequence[Binary | Exception]],
    ) -> None:
        """Has a thread compile the jobs that have not been begun, with `compiled`."""
        with self._lock:
            self._take_over()
            for key in [key for key, future in self._pending.items() if future.done()]:
                del self._pending[key]
            wanted = {job.key: job for job in jobs}
            wanted = {key: job for key, job in wanted.items() if key not in self._pending}
            if not wanted:
                return
            future: Future[Results] = Future()
            self._pending |= dict.fromkeys(wanted, future)

        def run() -> None:
            found: Results = {}
            try:
                found = dict(zip(wanted, compiled(list(wanted.values())), strict=True))
            finally:  # where it failed, whoever asks compiles, and is told why
                future.set_result(found)

        threading.Thread(target=run, name="triton-compile-early", daemon=True).start()

    def take(self, keys: Sequence[str]) -> Results:
        """The results of those among `keys` that were begun, once they are there."""
        with self._lock:
            self._take_over()
            begun = {key: self._pending.pop(key) for key in dict.fromkeys(keys) if key in self._pending}
        results = {key: future.result() for key, future in begun.items()}
        return {key: found[key] for key, found in results.items() if key in found}

    def _take_over(self) -> None:
        if self._owner != os.getpid():  # a copy of the process whose threads compile
            self._owner, self._pending = os.getpid(), {}
