"""The server that compiler processes are forked from, and its imports in advance."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packages.triton_runtime.tests.compiling import kill_server

from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.pool import WorkerPool
from triton_runtime.compile.service import INDUCTORS_MODULES
from triton_runtime.cuda import CudaDriver
from triton_runtime.fake import FakeDriver
from triton_runtime.settings import Settings
from wrapper_ir_runtime.cache import CacheSettings


def variable(name: bytes) -> bytes:
    """A job that reads its environment."""
    return os.environ.get(name.decode(), "").encode()


def modules(_: bytes) -> bytes:
    """A job that returns the imported modules."""
    return repr(sorted({name.partition(".")[0] for name in sys.modules})).encode()


def test_processes_are_forked_from_one_that_may_die(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next process is forked from a new server with the current environment."""
    forker = Forker()
    try:
        for value in ("a", "b"):
            monkeypatch.setenv("WRAPPER_IR_OF_THIS_TEST", value)
            with WorkerPool(1, forker=forker) as pool:
                assert pool.submit(variable, b"WRAPPER_IR_OF_THIS_TEST").result() == value.encode()
            assert forker.pid is not None
            os.kill(forker.pid, signal.SIGKILL)
        with WorkerPool(1, forker=forker, modules=["no_such_module", "colorsys"]) as pool:
            imported = pool.submit(modules, b"").result().decode()
            assert "'colorsys'" in imported
            # no job needs it
            assert "'torch'" not in imported
        forker.prepare(["no_such_module", "statistics"])
        with WorkerPool(1, forker=forker) as pool:
            assert "'statistics'" in pool.submit(modules, b"").result().decode()
        assert forker.pid is not None
        os.kill(forker.pid, signal.SIGKILL)
        # no server is running, which is not an error yet
        forker.prepare(["statistics"])
        with WorkerPool(1, forker=forker) as pool:
            assert pool.submit(modules, b"").result()
    finally:
        forker.close()


def test_a_runtime_prepares_what_its_options_leave_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing for the CPU, and nothing that options provide: an executor, a driver."""
    requests: list[str] = []
    monkeypatch.setattr(Forker, "prepare", lambda forker, names: requests.extend(names))
    monkeypatch.setattr(CudaDriver, "prepare", lambda driver: requests.append("launcher"))
    settings = Settings(cache=CacheSettings(folder=tmp_path), jobs=1)
    configured = TritonOptions(driver=FakeDriver(), executor=ThreadPoolExecutor(1))
    for options, device in ((TritonOptions(), "cpu"), (configured, "cuda")):
        TritonRuntime(settings=settings, options=options).prepare(device)
    assert requests == []
    TritonRuntime(settings=settings).prepare("cuda")
    assert requests == [*INDUCTORS_MODULES, "launcher"]


HELPERS = "torch._inductor.runtime.triton_helpers"
TORCH = {
    "__init__": "import torch.nn\nWHOLE = 1\n",
    "nn": "",
    "_inductor/__init__": "import torch\nassert torch.WHOLE\n",
    "_inductor/runtime/__init__": "",
    "_inductor/runtime/triton_compat": "import torch\ntry:\n    torch.autograd\nexcept AttributeError:\n    pass\n",
    "_inductor/runtime/triton_helpers": "from . import triton_compat\n",
}
"""Replaces torch, which takes seconds to import."""


def of_torch() -> bytes:
    """The imported modules of torch, and whether its own code has run."""
    torch = sys.modules["torch"]
    return repr([sorted(n for n in sys.modules if n.startswith("torch")), "WHOLE" in vars(torch)]).encode()


def ask_nothing(_: bytes) -> bytes:
    """A job that uses only the helpers."""
    from torch._inductor.runtime import triton_helpers

    assert triton_helpers.triton_compat  # type: ignore[attr-defined]
    return of_torch()


def ask_for_an_attribute(_: bytes) -> bytes:
    """A job with a fallback for a missing name of torch."""
    import torch

    return of_torch() if hasattr(torch, "WHOLE") else b"another result"


def ask_for_a_module(_: bytes) -> bytes:
    """A job with a fallback for a missing module."""
    try:
        import torch.nn  # noqa: F401
    except ImportError:
        return b"another result"
    return of_torch()


def write_torch(folder: Path, files: dict[str, str]) -> None:
    """A package `torch`."""
    for name, text in files.items():
        path = folder / "torch" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def own_forker() -> Iterator[Forker]:
    """A server for this test only."""
    forker = Forker()
    yield forker
    forker.close()


def test_torch_is_imported_where_a_job_asks_for_more_than_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_forker: Forker
) -> None:
    """The job is repeated: its result may depend on the answer."""
    write_torch(tmp_path, TORCH)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = (
        "['torch', 'torch._inductor', 'torch._inductor.runtime', 'torch._inductor.runtime.triton_compat', "
    )
    part = f"[{names}'{HELPERS}'], False]".encode()
    with WorkerPool(1, forker=own_forker, modules=[HELPERS, "torch._inductor.runtime"]) as pool:
        assert pool.submit(ask_nothing, b"").result() == part
        assert pool.submit(ask_for_an_attribute, b"").result() == b"[['torch', 'torch.nn'], True]"
        assert pool.submit(ask_nothing, b"").result().endswith(b"'torch.nn'], True]"), "it stays"
    with WorkerPool(1, forker=own_forker, modules=[HELPERS]) as pool:
        assert pool.submit(ask_nothing, b"").result() == part, "the next process is forked from the server"
        assert pool.submit(ask_for_a_module, b"").result() == b"[['torch', 'torch.nn'], True]"
    for _ in range(2):
        with WorkerPool(1, forker=own_forker, modules=[HELPERS, "torch.nn"]) as pool:
            assert pool.submit(ask_nothing, b"").result().endswith(b"'torch.nn'], True]")


@pytest.mark.parametrize("asks", ["torch.WHOLE", "import torch.nn", "raise ValueError"])
def test_torch_is_imported_where_helpers_need_more_of_it(
    asks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_forker: Forker
) -> None:
    """As the helpers of another version may."""
    text = TORCH["_inductor/runtime/triton_compat"]
    check = "\nif 'WHOLE' not in vars(torch):\n    " if asks.startswith("raise") else "\n"
    write_torch(tmp_path, {**TORCH, "_inductor/runtime/triton_compat": f"{text}{check}{asks}\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    with WorkerPool(1, forker=own_forker, modules=[HELPERS]) as pool:
        assert pool.submit(ask_nothing, b"").result().endswith(b"'torch.nn'], True]")


def test_a_server_tells_when_it_is_ready(own_forker: Forker) -> None:
    """It never blocks; a dead server is never ready."""
    assert (own_forker.ready(), own_forker.age) == (False, None)
    own_forker.prepare(["statistics"])
    own_forker.prepare(["colorsys"])
    deadline = time.monotonic() + 60
    while not own_forker.ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    age = own_forker.age
    assert age is not None
    assert age > 0
    with WorkerPool(1, forker=own_forker) as pool:
        assert "'colorsys'" in pool.submit(modules, b"").result().decode()
    kill_server(own_forker)
    assert not own_forker.ready()
    assert (own_forker.age, own_forker.pid) == (None, None)


def test_inductors_kernels_take_helpers_of_torch_alone(own_forker: Forker) -> None:
    """With the installed torch, most of it is not imported."""
    pytest.importorskip("torch")
    with WorkerPool(1, forker=own_forker, modules=INDUCTORS_MODULES) as pool:
        imported = pool.submit(of_torch_now, b"").result()
    assert b"triton_helpers" in imported
    assert b"torch._C" not in imported


def of_torch_now(_: bytes) -> bytes:
    """A job that returns the imported modules of torch."""
    return of_torch()
