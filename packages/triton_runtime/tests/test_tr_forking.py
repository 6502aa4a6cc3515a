"""The process that compiler processes are forked from, and what it is asked to import ahead of time."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.compile import WorkerPool
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.service import INDUCTORS_MODULES
from triton_runtime.cuda import CudaDriver
from triton_runtime.fake import FakeDriver
from triton_runtime.settings import Settings
from wrapper_ir.store import CacheSettings


def variable(name: bytes) -> bytes:
    """A job that looks at its environment."""
    return os.environ.get(name.decode(), "").encode()


def modules(_: bytes) -> bytes:
    """A job that says what is imported."""
    return repr(sorted({name.partition(".")[0] for name in sys.modules})).encode()


def test_processes_are_forked_from_one_that_may_die(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is forked from another, and has today's environment."""
    forker = Forker()
    try:
        for value in ("a", "b"):
            monkeypatch.setenv("WRAPPER_IR_OF_THIS_TEST", value)
            with WorkerPool(1, forker=forker) as pool:
                assert pool.submit(variable, b"WRAPPER_IR_OF_THIS_TEST").result() == value.encode()
            assert forker.pid is not None
            os.kill(forker.pid, signal.SIGKILL)
        with WorkerPool(1, forker=forker, modules=["no_such_module", "colorsys"]) as pool:
            found = pool.submit(modules, b"").result().decode()
            assert "'colorsys'" in found
            assert "'torch'" not in found  # nobody asked for it
        forker.prepare(["no_such_module", "statistics"])
        with WorkerPool(1, forker=forker) as pool:
            assert "'statistics'" in pool.submit(modules, b"").result().decode()
        assert forker.pid is not None
        os.kill(forker.pid, signal.SIGKILL)
        forker.prepare(["statistics"])  # nobody is there, which is no one's business yet
        with WorkerPool(1, forker=forker) as pool:
            assert pool.submit(modules, b"").result()
    finally:
        forker.close()


def test_a_runtime_prepares_what_its_options_leave_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing for the host, and nothing that is given: an executor, a driver."""
    asked: list[str] = []
    monkeypatch.setattr(Forker, "prepare", lambda forker, names: asked.extend(names))
    monkeypatch.setattr(CudaDriver, "prepare", lambda driver: asked.append("launcher"))
    settings = Settings(cache=CacheSettings(folder=tmp_path), jobs=1)
    given = TritonOptions(driver=FakeDriver(), executor=ThreadPoolExecutor(1))
    for options, device in ((TritonOptions(), "cpu"), (given, "cuda")):
        TritonRuntime(settings=settings, options=options).prepare(device)
    assert asked == []
    TritonRuntime(settings=settings).prepare("cuda")
    assert asked == [*INDUCTORS_MODULES, "launcher"]
