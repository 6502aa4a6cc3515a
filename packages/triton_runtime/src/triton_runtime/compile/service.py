"""Compiles many jobs at once, asking a store first."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass

from triton_runtime.compile.binary import binary_from_bytes
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import CompileJob, imports
from triton_runtime.compile.pool import WorkerPool
from triton_runtime.errors import CompileError
from triton_runtime.protocols import Binary, ByteStore

_LIBRARIES = ("torch", "triton")

__all__ = ["INDUCTORS_MODULES", "CompileStats", "MemoryStore", "compile_all", "compile_each"]

_ALWAYS = (compile_job.__module__, "triton.compiler")
INDUCTORS_MODULES = (*_ALWAYS, "torch._inductor.runtime.triton_helpers", "triton.language")
"""What compiling Inductor's kernels takes."""


class MemoryStore:
    """A store that ends with its process."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`, or None."""
        return self._data.get(key)

    def put(self, key: str, data: bytes) -> None:
        """Keeps `data`."""
        self._data[key] = data


@dataclass(slots=True)
class CompileStats:
    """What became of jobs: `found` in a store, `compiled`, `retried` because their process died.

    `carried` of those found were in the program's own artifact. `passed_over` counts jobs whose kernel the artifact
    carries for another target, config or version of the compiler only.
    """

    found: int = 0
    compiled: int = 0
    retried: int = 0
    carried: int = 0
    passed_over: int = 0


def compile_all(
    jobs: Sequence[CompileJob],
    store: ByteStore,
    executor: Executor | None = None,
    *,
    max_workers: int = 1,
    timeout: float | None = None,
    stats: CompileStats | None = None,
    forker: Forker | None = None,
) -> list[Binary]:
    """The binaries of all jobs: as `compile_each`, but raises the first error, after all others have ended."""
    found = compile_each(
        jobs, store, executor, max_workers=max_workers, timeout=timeout, stats=stats, forker=forker
    )
    binaries: list[Binary] = []
    for one in found:
        if isinstance(one, Exception):
            raise one
        binaries.append(one)
    return binaries


def compile_each(
    jobs: Sequence[CompileJob],
    store: ByteStore,
    executor: Executor | None = None,
    *,
    max_workers: int = 1,
    timeout: float | None = None,
    stats: CompileStats | None = None,
    forker: Forker | None = None,
) -> list[Binary | Exception]:
    """For each job, in their order, its binary or why there is none (CompileError TR201, TR203, TR204, KernelError);
    equal jobs are compiled once.

    `executor` runs what the store lacks (where it is None, a pool of at most `max_workers` processes that `forker` forks). A
    job whose process dies is run once more.
    """
    stats = stats or CompileStats()
    known: dict[str, Binary | Exception] = {}
    wanted: dict[str, CompileJob] = {}
    for job in jobs:
        if (key := job.key) in known or key in wanted:
            continue
        if (binary := _find(store, key)) is not None:
            stats.found += 1
            known[key] = binary
        else:
            wanted[key] = job
    if wanted and executor is not None:
        known |= _compile(wanted, store, executor, timeout, stats)
    elif wanted:
        modules = _modules(wanted.values())
        with WorkerPool(min(max_workers, len(wanted)), timeout, modules=modules, forker=forker) as pool:
            known |= _compile(wanted, store, pool, None, stats)
    return [known[job.key] for job in jobs]


def _modules(jobs: Iterable[CompileJob]) -> list[str]:
    """What compiler processes import once for all: not modules of a user's own, which may change from job to job."""
    found = {name for job in jobs for name in imports(job.source) if name.partition(".")[0] in _LIBRARIES}
    return [*_ALWAYS, *sorted(found)]


def _find(store: ByteStore, key: str) -> Binary | None:
    data = store.get(key)
    if data is None:
        return None
    try:
        return binary_from_bytes(data)
    except ValueError as error:
        warnings.warn(f"a stored kernel is compiled again: {error} ({key})", RuntimeWarning, stacklevel=4)
        return None


def _compile(
    wanted: dict[str, CompileJob],
    store: ByteStore,
    executor: Executor,
    timeout: float | None,
    stats: CompileStats,
) -> dict[str, Binary | Exception]:
    pending = {key: _submit(executor, job) for key, job in wanted.items()}
    done: dict[str, Binary | Exception] = {}
    for key, future in pending.items():
        try:
            data = _result(executor, wanted[key], future, timeout, stats)
        except Exception as error:  # told when every job has ended
            done[key] = error
            continue
        stats.compiled += 1
        store.put(key, data)
        done[key] = binary_from_bytes(data)
    return done


def _submit(executor: Executor, job: CompileJob) -> Future[bytes]:
    try:
        return executor.submit(compile_job, job.to_bytes())
    except BrokenExecutor as error:
        failed: Future[bytes] = Future()
        failed.set_exception(error)
        return failed


def _result(
    executor: Executor, job: CompileJob, future: Future[bytes], timeout: float | None, stats: CompileStats
) -> bytes:
    try:
        try:
            return future.result(timeout)
        except BrokenExecutor as error:
            warnings.warn(f"compiling kernel '{job.kernel}' again: {error}", RuntimeWarning, stacklevel=5)
            stats.retried += 1
            return _submit(executor, job).result(timeout)
    except BrokenExecutor as error:
        raise CompileError(
            "TR203",
            f"two compiler processes died over kernel '{job.kernel}' with config {job.config}: {error}",
            "less memory is used with fewer processes at once: WRAPPER_IR_BUILD_JOBS=1",
        ) from error
    except TimeoutError as error:
        raise CompileError(
            "TR204",
            f"compiling kernel '{job.kernel}' with config {job.config} took longer than {timeout or 0:g} s"
            if timeout
            else f"compiling kernel '{job.kernel}' with config {job.config}: {error}",
            "raise TritonOptions.timeout, or leave the config out",
        ) from error
