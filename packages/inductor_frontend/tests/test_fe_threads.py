"""First calls of a process, made by several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_THREADS = """
import threading
import traceback
import torch

N = 8
barrier = threading.Barrier(N)
failed = []
x = torch.randn(16, 8)


def run(i):
    def model(x):
        return (x * (i + 2)).relu().sum(-1)

    try:
        barrier.wait()
        torch.testing.assert_close(called(i, model), model(x))
    except BaseException:
        failed.append(traceback.format_exc())


threads = [threading.Thread(target=run, args=(i,)) for i in range(N)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed[0]
print("done")
"""

_CASES = {
    "compile": """
def called(i, model):
    return torch.compile(model, backend="wrapper_ir")(x)
""",
    "compile with each emitter": """
def called(i, model):
    emitter = ("python", "fx", "cpp")[i % 3]
    return torch.compile(model, backend="wrapper_ir", options={"emitter": emitter})(x)
""",
    "capture and emit": """
def called(i, model):
    from inductor_frontend import capture
    from wrapper_ir.plugins.registry import emitter

    artifact = capture(model, (x,))
    made = [emitter(("python", "fx", "cpp")[(i + k) % 3]).compile(artifact)(x) for k in range(3)]
    assert all(torch.equal(y, made[0]) for y in made)
    return made[0]
""",
    "launch Triton kernels": """
def called(i, model):
    from inductor_frontend import CaptureOptions, capture
    from wrapper_ir.plugins.registry import emitter

    artifact = capture(model, (x,), options=CaptureOptions(cpu_kernels="triton"))
    return emitter(("python", "fx")[i % 2]).compile(artifact)(x)
""",
}


def _entry_points(folder: Path) -> Path:
    """Writes the entry points of this checkout as an installed distribution: an environment may have older
    ones."""
    project = tomllib.loads((_ROOT / "packages/inductor_frontend/pyproject.toml").read_text(encoding="utf-8"))
    groups = project["project"]["entry-points"]
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups.items()
    )
    info = folder / "inductor_frontend-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: inductor-frontend\nVersion: 0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES)
def test_threads_begin_at_once(case: str, tmp_path: Path) -> None:
    if "Triton" in case:
        pytest.importorskip("triton")
    paths = [str(_entry_points(tmp_path)), *sys.path]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CASES[case] + _THREADS],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "WRAPPER_IR_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "done\n", result.stderr[-3000:]


def test_the_backend_is_registered_once(tmp_path: Path) -> None:
    """Torch's lookup continues with the registered backend, also in a thread that missed it before the
    registration."""
    text = """
from importlib.metadata import entry_points

import torch
from torch._dynamo.backends import registry

(point,) = entry_points(group="torch_dynamo_backends", name="wrapper_ir")
registry.register_backend(compiler_fn=point.load(), name="wrapper_ir")
registry.register_backend(compiler_fn=point.load(), name="wrapper_ir")
from inductor_frontend.backend import wrapper_ir_backend

assert registry.lookup_backend("wrapper_ir") is wrapper_ir_backend
print("done")
"""
    paths = [str(_entry_points(tmp_path)), *sys.path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], env=env, capture_output=True, text=True, check=False
    )
    assert result.stdout == "done\n", result.stderr[-3000:]
