"""Compiles kernels in the calling process until compiler processes can be forked; results are equal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packages.triton_runtime.tests.compiling import BROKEN, CLAUSES, PARAMS, MemoryStore, job_of, kill_server
from packages.triton_runtime.tests.triton_texts import kernel_of

from triton_runtime import Binary, CompileError
from triton_runtime._compat import LANGUAGE
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import CompileJob
from triton_runtime.compile.local import LocalCompilation, LocalCompiler
from triton_runtime.compile.service import CompileStats, Workers, compile_each


class StartingForker(Forker):
    """A server that becomes ready when a test says so; then it forwards to a running one."""

    def __init__(self, server: Forker, age: float | None = 5.0) -> None:
        super().__init__()
        self.server, self.there, self.prepared = server, threading.Event(), 0
        self._age = age

    @property
    def age(self) -> float | None:
        return self._age

    def ready(self) -> bool:
        return self.there.is_set()

    def prepare(self, modules: Sequence[str]) -> None:
        self.prepared += 1
        self._age = 5.0

    def fork(self, modules: Sequence[str], variables: Mapping[str, str], printed: int):  # type: ignore[no-untyped-def]
        self.there.wait()
        return self.server.fork(modules, variables, printed)

    def ended(self, pid: int, patience: float) -> int:
        return self.server.ended(pid, patience)


class Counted:
    """Compiles and counts; calls `before` with the number of each kernel."""

    def __init__(self, before: Callable[[int], object] = lambda number: None) -> None:
        self.before, self.count, self.at_once = before, 0, 0
        self._running = 0

    def __call__(self, data: bytes) -> bytes:
        self._running += 1
        self.at_once = max(self.at_once, self._running)
        self.count += 1
        try:
            self.before(self.count)
            return compile_job(data)
        finally:
            self._running -= 1


def jobs_in(folder: Path, count: int) -> list[CompileJob]:
    """Creates distinct kernels."""
    texts = [BROKEN.replace("x.no_such_thing", f"x + {i}") for i in range(count)]
    return [job_of(kernel_of(PARAMS, CLAUSES, text, entry="broken"), folder) for text in texts]


@pytest.fixture
def compiled(tmp_path: Path, forker: Forker) -> list[Binary | Exception]:
    """Three kernels compiled only by compiler processes."""
    return compile_each(jobs_in(tmp_path, 3), MemoryStore(), Workers(forker=forker))


def test_without_a_server_all_are_compiled_here(
    tmp_path: Path, compiled: list[Binary | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server cannot be started; the process that needs it reports a kernel's errors."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    stats, run, store = CompileStats(), Counted(), MemoryStore()
    workers = Workers(forker=Forker(), local=LocalCompiler(run))
    assert compile_each(jobs_in(tmp_path, 3), store, workers, stats) == compiled
    assert (run.count, stats.compiled) == (3, 3)
    assert compile_each(jobs_in(tmp_path, 3), store, workers, stats) == compiled
    assert (run.count, stats.reused) == (3, 3)
    broken = job_of(kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken"), tmp_path)
    with pytest.warns(RuntimeWarning, match="again"):
        [error] = compile_each([broken], store, workers, stats)
    assert isinstance(error, CompileError)
    assert error.code == "TR203"


def test_a_server_that_dies_is_not_missed(tmp_path: Path, compiled: list[Binary | Exception]) -> None:
    forker = Forker()
    forker.prepare(["statistics"])
    kill_server(forker)
    run = Counted()
    workers = Workers(forker=forker, local=LocalCompiler(run))
    assert compile_each(jobs_in(tmp_path, 3), MemoryStore(), workers) == compiled
    assert forker.pid is None, "none is started for so few"
    assert run.count == 3


def test_the_rest_goes_to_the_server_when_it_is_ready(
    tmp_path: Path, compiled: list[Binary | Exception], forker: Forker
) -> None:
    starting = StartingForker(forker)
    run = Counted(lambda number: starting.there.set())
    workers = Workers(max_workers=2, forker=starting, local=LocalCompiler(run))
    stats = CompileStats()
    assert compile_each(jobs_in(tmp_path, 3), MemoryStore(), workers, stats) == compiled
    assert 1 <= run.count < 3
    assert stats.compiled == 3
    run.count = 0
    assert compile_each(jobs_in(tmp_path, 3), MemoryStore(), workers) == compiled
    assert run.count == 0, "nothing is compiled here once the server is there"


def test_what_is_refused_is_told_as_compiler_processes_tell_it(tmp_path: Path, forker: Forker) -> None:
    broken = job_of(kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken"), tmp_path)
    jobs = [broken, *jobs_in(tmp_path, 1)]
    want = compile_each(jobs, MemoryStore(), Workers(forker=forker))
    starting = StartingForker(forker)
    run = Counted(lambda number: starting.there.set() if number == 2 else None)
    results = compile_each(jobs, MemoryStore(), Workers(forker=starting, local=LocalCompiler(run)))
    assert run.count == 2
    assert results[1] == want[1]
    assert isinstance(results[0], CompileError)
    assert str(results[0]) == str(want[0])


def test_threads_take_turns(tmp_path: Path, compiled: list[Binary | Exception], forker: Forker) -> None:
    run = Counted(lambda number: time.sleep(0.02))
    workers = Workers(forker=StartingForker(forker), local=LocalCompiler(run))
    with ThreadPoolExecutor(2) as threads:
        results = threads.map(lambda _: compile_each(jobs_in(tmp_path, 3), MemoryStore(), workers), range(2))
        assert list(results) == [compiled, compiled]
    assert (run.count, run.at_once) == (6, 1)


def test_whoever_uses_the_language_is_not_waited_for(
    tmp_path: Path, compiled: list[Binary | Exception], forker: Forker
) -> None:
    """A kernel in the interpreter may be waiting for these."""
    run = Counted()
    with LANGUAGE, ThreadPoolExecutor(1) as threads:
        starting = StartingForker(forker)
        starting.there.set()
        # simulates a slow server
        starting.ready = lambda: False  # type: ignore[method-assign]
        workers = Workers(forker=starting, local=LocalCompiler(run))
        results = threads.submit(compile_each, jobs_in(tmp_path, 3), MemoryStore(), workers).result()
    assert results == compiled
    assert run.count == 0


def test_a_kernel_that_takes_too_long_is_left(
    tmp_path: Path, forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be stopped; processes compile the others."""
    overdue = LocalCompilation.overdue
    monkeypatch.setattr(LocalCompilation, "overdue", lambda running, timeout: overdue(running, 0.0))
    release = threading.Event()
    starting = StartingForker(forker)
    starting.there.set()
    # simulates a slow server
    starting.ready = lambda: False  # type: ignore[method-assign]
    run = Counted(lambda number: release.wait(20))
    compiler = LocalCompiler(run)
    workers = Workers(forker=starting, local=compiler, timeout=600.0)
    first, second = compile_each(jobs_in(tmp_path, 2), MemoryStore(), workers)
    release.set()
    # the kernel has ended: other tests compile
    with compiler.lock:
        pass
    assert isinstance(first, CompileError)
    assert first.code == "TR204"
    assert isinstance(second, Binary)
    assert run.count == 1


def test_an_interrupted_caller_begins_no_other_kernel(tmp_path: Path, forker: Forker) -> None:
    def interrupted() -> Iterator[bool]:
        yield False
        while not run.count:
            yield False
        raise KeyboardInterrupt

    starting = StartingForker(forker)
    answers = interrupted()
    starting.ready = lambda: next(answers)  # type: ignore[method-assign]
    finished = threading.Event()
    run = Counted(lambda number: finished.wait(20))
    compiler = LocalCompiler(run)
    with pytest.raises(KeyboardInterrupt):
        compile_each(jobs_in(tmp_path, 3), MemoryStore(), Workers(forker=starting, local=compiler))
    finished.set()
    # the started kernel has ended
    with compiler.lock:
        assert run.count == 1


def test_a_server_is_started_for_many_kernels_and_waited_for_when_it_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = LocalCompiler()
    monkeypatch.delitem(sys.modules, "triton.compiler", raising=False)
    assert not new.needs_server(1)
    assert new.needs_server(16)
    assert new.patience(0.0) == 0, "a kernel is compiled here before it comes"
    assert new.patience(0.5) > 0
    assert new.patience(0.7) == pytest.approx(new.patience(0.5) - 0.2)
    assert new.patience(60.0) == 0, "it is late: nobody knows when it comes"
    busy = LocalCompiler(kernels=10, seconds=1.0)
    assert busy.seconds_for(3) == pytest.approx(0.3)
    assert busy.patience(0.0) == 0
    assert 0 < busy.patience(1.15) <= 0.1
    assert not busy.needs_server(10)
    assert busy.needs_server(40)


@pytest.mark.parametrize("count", [1, 16])
def test_only_many_kernels_start_a_server(count: int, tmp_path: Path, forker: Forker) -> None:
    [job] = jobs_in(tmp_path, 1)
    starting = StartingForker(forker, age=None)
    data = compile_job(job.to_bytes())
    local = LocalCompiler(lambda _: data, kernels=1, seconds=0.5)
    compile_each(jobs_in(tmp_path, count), MemoryStore(), Workers(forker=starting, local=local))
    assert starting.prepared == (count == 16)
