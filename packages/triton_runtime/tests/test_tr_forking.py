"""The process that compiler processes are forked from, and what it is asked to import ahead of time."""

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
from triton_runtime.compile import WorkerPool
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.service import INDUCTORS_MODULES
from triton_runtime.cuda import CudaDriver
from triton_runtime.fake import FakeDriver
from triton_runtime.settings import Settings
from wrapper_ir_runtime.cache import CacheSettings


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


HELPERS = "torch._inductor.runtime.triton_helpers"
TORCH = {
    "__init__": "import torch.nn\nWHOLE = 1\n",
    "nn": "",
    "_inductor/__init__": "import torch\nassert torch.WHOLE\n",
    "_inductor/runtime/__init__": "",
    "_inductor/runtime/triton_compat": "import torch\ntry:\n    torch.autograd\nexcept AttributeError:\n    pass\n",
    "_inductor/runtime/triton_helpers": "from . import triton_compat\n",
}
"""Stands in for torch, which takes seconds to import."""


def of_torch() -> bytes:
    """What is imported of torch, and whether its own code has run."""
    torch = sys.modules["torch"]
    return repr([sorted(n for n in sys.modules if n.startswith("torch")), "WHOLE" in vars(torch)]).encode()


def ask_nothing(_: bytes) -> bytes:
    """A job that uses the helpers alone."""
    from torch._inductor.runtime import triton_helpers

    assert triton_helpers.triton_compat  # type: ignore[attr-defined]
    return of_torch()


def ask_for_an_attribute(_: bytes) -> bytes:
    """A job that does something else where torch lacks a name."""
    import torch

    return of_torch() if hasattr(torch, "WHOLE") else b"another result"


def ask_for_a_module(_: bytes) -> bytes:
    """A job that would do without a module."""
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
    """A server of the test's own."""
    forker = Forker()
    yield forker
    forker.close()


def test_torch_is_imported_where_a_job_asks_for_more_than_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_forker: Forker
) -> None:
    """A job that asked is run again: its result may depend on the answer."""
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
    """As those of another version may."""
    text = TORCH["_inductor/runtime/triton_compat"]
    check = "\nif 'WHOLE' not in vars(torch):\n    " if asks.startswith("raise") else "\n"
    write_torch(tmp_path, {**TORCH, "_inductor/runtime/triton_compat": f"{text}{check}{asks}\n"})
    monkeypatch.syspath_prepend(str(tmp_path))
    with WorkerPool(1, forker=own_forker, modules=[HELPERS]) as pool:
        assert pool.submit(ask_nothing, b"").result().endswith(b"'torch.nn'], True]")


def test_a_server_tells_when_it_is_ready(own_forker: Forker) -> None:
    """Without being waited for; one that has died never is."""
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
    """With the torch that is installed: nothing else of it is imported, which is most of what there was to import."""
    pytest.importorskip("torch")
    with WorkerPool(1, forker=own_forker, modules=INDUCTORS_MODULES) as pool:
        found = pool.submit(of_torch_now, b"").result()
    assert b"triton_helpers" in found
    assert b"torch._C" not in found


def of_torch_now(_: bytes) -> bytes:
    """A job that says what is imported of torch."""
    return of_torch()
