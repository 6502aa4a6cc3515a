"""Compiles kernels while the rest of their program is still being compiled; loading waits for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from triton_runtime.compile.job import CompileJob
from triton_runtime.protocols import Binary

Results = Mapping[str, Binary | Exception]
"""Results by the key of a job."""


@dataclass(slots=True)
class EarlyCompilations:
    """Jobs that were started before their results are needed.

    Finished results that were not taken are dropped when other jobs start: a store has them.
    """

    _pending: dict[str, Future[Results]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _owner: int = field(default_factory=os.getpid)

    def begin(
        self,
        jobs: Sequence[CompileJob],
        compiled: Callable[[Sequence[CompileJob]], Sequence[Binary | Exception]],
    ) -> None:
        """Compiles the jobs that have not been started, with `compiled`, in a thread."""
        with self._lock:
            self._take_over()
            for key in [key for key, future in self._pending.items() if future.done()]:
                del self._pending[key]
            new_jobs = {job.key: job for job in jobs}
            new_jobs = {key: job for key, job in new_jobs.items() if key not in self._pending}
            if not new_jobs:
                return
            future: Future[Results] = Future()
            self._pending |= dict.fromkeys(new_jobs, future)

        def run() -> None:
            results: Results = {}
            try:
                results = dict(zip(new_jobs, compiled(list(new_jobs.values())), strict=True))
            # after a failure the caller compiles again and gets the error
            finally:
                future.set_result(results)

        threading.Thread(target=run, name="triton-compile-early", daemon=True).start()

    def take(self, keys: Sequence[str]) -> Results:
        """Waits for and returns the results of those of `keys` that were started."""
        with self._lock:
            self._take_over()
            begun = {key: self._pending.pop(key) for key in dict.fromkeys(keys) if key in self._pending}
        results = {key: future.result() for key, future in begun.items()}
        return {key: done_results[key] for key, done_results in results.items() if key in done_results}

    def _take_over(self) -> None:
        # a forked copy of the process lacks its threads
        if self._owner != os.getpid():
            self._owner, self._pending = os.getpid(), {}
