"""Compiles many jobs at once, after a lookup in a store."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass

from triton_runtime.compile.binary import binary_from_bytes
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import CompileJob, imports
from triton_runtime.compile.local import LocalCompilation, LocalCompiler
from triton_runtime.compile.pool import WorkerPool
from triton_runtime.errors import CompileError
from triton_runtime.protocols import Binary, ByteStore

_LIBRARIES = ("torch", "triton")
_POLL_SECONDS = 0.005

_ALWAYS = (compile_job.__module__, "triton.compiler", "triton.compiler.code_generator")
INDUCTORS_MODULES = (*_ALWAYS, "torch._inductor.runtime.triton_helpers", "triton.language")
"""Modules needed to compile Inductor's kernels."""


@dataclass(slots=True)
class CompileStats:
    """Counts of jobs: `reused` from a store, `compiled`, `retried` after their process died.

    `carried` of the reused ones were in the program's artifact. `passed_over` counts jobs for whose kernel
    the artifact only has binaries of another target, config or compiler version.
    """

    reused: int = 0
    compiled: int = 0
    retried: int = 0
    carried: int = 0
    passed_over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Selects where jobs are compiled.

    `executor` runs them; if it is None, at most `max_workers` processes that `forker` forks do (None:
    temporary ones), and `local` while these start (None: no local compilation). `timeout` limits the seconds
    of one compilation.
    """

    executor: Executor | None = None
    max_workers: int = 1
    timeout: float | None = None
    forker: Forker | None = None
    local: LocalCompiler | None = None


_ONE_PROCESS = Workers()


def compile_each(
    jobs: Sequence[CompileJob],
    store: ByteStore,
    workers: Workers = _ONE_PROCESS,
    stats: CompileStats | None = None,
) -> list[Binary | Exception]:
    """Returns for each job, in order, its binary or its error; equal jobs are compiled once.

    Errors are CompileError TR201, TR203, TR204, or KernelError. `workers` compile the jobs that the store
    lacks. A job whose process dies is retried once.
    """
    stats = stats or CompileStats()
    results: dict[str, Binary | Exception] = {}
    missing: dict[str, CompileJob] = {}
    for job in jobs:
        if (key := job.key) in results or key in missing:
            continue
        if (binary := _find(store, key)) is not None:
            stats.reused += 1
            results[key] = binary
        else:
            missing[key] = job
    if missing and workers.executor is not None:
        results |= _compile(missing, store, workers.executor, workers.timeout, stats)
    elif missing:
        results |= _compile_in_processes(missing, store, workers, stats)
    return [results[job.key] for job in jobs]


def _compile_in_processes(
    missing: Mapping[str, CompileJob], store: ByteStore, workers: Workers, stats: CompileStats
) -> dict[str, Binary | Exception]:
    modules = _modules(missing.values())
    local = _started_here(missing, workers, modules)
    rest = missing if local is None else {key: missing[key] for key in local.stop()}
    size = min(workers.max_workers, len(missing))
    results: dict[str, Binary | Exception] = {}
    with WorkerPool(size, workers.timeout, modules=modules, forker=workers.forker) as pool:
        results |= _compile(rest, store, pool, None, stats)
        if local is None:
            return results
        while not local.wait(_POLL_SECONDS):
            if key := local.overdue(workers.timeout):
                results[key] = _too_long(missing[key], workers.timeout)
                break
        for key, data in dict(local.compiled).items():
            results[key] = _keep(store, key, data, stats)
        results |= _compile({key: missing[key] for key in local.failed}, store, pool, None, stats)
    return results


def _started_here(
    missing: Mapping[str, CompileJob], workers: Workers, modules: Sequence[str]
) -> LocalCompilation | None:
    """Compiles jobs in this process until the server of `workers` is ready, or no job remains to be started.

    Returns None if waiting for the server is faster.
    """
    local, forker = workers.local, workers.forker
    if local is None or forker is None or forker.ready():
        return None
    if forker.age is None and local.needs_server(len(missing)):
        forker.prepare(modules)
    if forker.age is not None:
        deadline = time.monotonic() + local.patience(forker.age)
        while time.monotonic() < deadline:
            if forker.ready():
                return None
            time.sleep(_POLL_SECONDS)
    running = LocalCompilation(local, missing)
    try:
        while not running.wait(_POLL_SECONDS) and not forker.ready() and not running.overdue(workers.timeout):
            pass
    # for example a KeyboardInterrupt
    except BaseException:
        running.stop()
        raise
    return running


def _modules(jobs: Iterable[CompileJob]) -> list[str]:
    """Modules that compiler processes import in advance: not the user's own, which may change between
    jobs."""
    names = {name for job in jobs for name in imports(job.source) if name.partition(".")[0] in _LIBRARIES}
    return [*_ALWAYS, *sorted(names)]


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
    missing: Mapping[str, CompileJob],
    store: ByteStore,
    executor: Executor,
    timeout: float | None,
    stats: CompileStats,
) -> dict[str, Binary | Exception]:
    pending = {key: _submit(executor, job) for key, job in missing.items()}
    results: dict[str, Binary | Exception] = {}
    for key, future in pending.items():
        try:
            data = _result(executor, missing[key], future, timeout, stats)
        # raised after all jobs have ended
        except Exception as error:
            results[key] = error
            continue
        results[key] = _keep(store, key, data, stats)
    return results


def _keep(store: ByteStore, key: str, data: bytes, stats: CompileStats) -> Binary:
    stats.compiled += 1
    store.put(key, data)
    return binary_from_bytes(data)


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
        raise _too_long(job, timeout, error) from error


def _too_long(job: CompileJob, timeout: float | None, error: TimeoutError | None = None) -> CompileError:
    return CompileError(
        "TR204",
        f"compiling kernel '{job.kernel}' with config {job.config} took longer than {timeout:g} s"
        if timeout
        else f"compiling kernel '{job.kernel}' with config {job.config}: {error}",
        "raise TritonOptions.timeout, or leave the config out",
    )
