"""Compiled Triton kernels and tuning across processes: a second process of the same model compiles and
measures nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.own_kernel_source import hashes

pytest.importorskip("triton", reason="kernels are compiled by triton")

MODEL = """
import json, sys, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(40, 16), nn.LayerNorm(16)

    def forward(self, ids):
        x = self.norm(self.words(ids))
        return (x * x.sum(-1, keepdim=True).softmax(1)).sum(1)

torch.manual_seed(0)
model, ids = Net().eval(), torch.arange(24).reshape(2, 12)

def told(runtime, result):
    return {
        "compiled": runtime.stats.compiled,
        "reused": runtime.stats.reused,
        "tuned": {source.value: count for source, count in runtime.sources.items()},
        "chosen": sorted(map(str, runtime.measurements.entries)),
        "result": result.tolist(),
    }
"""

ABSENT = (
    MODEL
    + """
# Kernels are compiled for a GPU that is not here and tuned; Triton's interpreter runs them.
from pathlib import Path
import py_wrapper
from inductor_frontend import CaptureOptions, capture
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.interp import InterpreterDriver
from triton_runtime.tune import HostTimer, MeasureOptions, TuneOptions, DeviceKey
from wrapper_ir.ir.program import Target
from wrapper_ir.ir.types import CPU, Device

class Driver:
    name, needs_binary = "interpreter", True

    def load(self, launchable, device):
        assert launchable.binary.image[:4] == b"\\x7fELF"
        return InterpreterDriver(folder=Path(sys.argv[1])).load(launchable, CPU)

class ForGpu:
    kind = "triton"

    def load(self, kernel, target):
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels, target):
        return runtime.load_all(kernels, Target(device=Device("cuda", 0), arch="sm_90"))

tune = TuneOptions(measure=MeasureOptions(rounds=2, trial=2))
runtime = TritonRuntime(
    options=TritonOptions(driver=Driver(), tune=tune, timer=HostTimer(CPU), device_key=DeviceKey("a device", "3"))
)
emitter = py_wrapper.PythonEmitter(options=py_wrapper.PyOptions(find_runtime=lambda kind: ForGpu()))
"""
)
CAPTURED = (
    ABSENT
    + """
artifact = capture(model, (ids,), options=CaptureOptions(cpu_kernels="triton"))
result = emitter.compile(artifact)(ids)
torch.testing.assert_close(result, model(ids))
print(json.dumps(told(runtime, result)))
"""
)
BACKEND = (
    ABSENT
    + """
options = {"cpu_kernels": "triton", "emitter": emitter}
with torch.no_grad():
    result = torch.compile(model, backend="wrapper_ir", options=options)(ids)
    torch.testing.assert_close(result, model(ids))
print(json.dumps(told(runtime, result)))
"""
)
ON_DEVICE = (
    MODEL
    + """
from triton_runtime import KERNEL_RUNTIME as runtime

model, ids = model.cuda(), ids.cuda()
with torch.no_grad():
    result = torch.compile(model, backend="wrapper_ir")(ids)
    torch.testing.assert_close(result, model(ids))
print(json.dumps(told(runtime, result)))
"""
)


def run(script: str, folder: Path) -> dict[str, Any]:  # Any: JSON
    """Returns the output of a fresh process, with its caches in a folder."""
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "theirs"),
        "WRAPPER_IR_CACHE_DIR": str(folder / "ours"),
        "WRAPPER_IR_COMPILE_CACHE": "1",
        "WRAPPER_IR_BUILD_JOBS": "2",
        "WRAPPER_IR_TRITON_TUNE": "1",
    }
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder / "sources")]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(script: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two processes, of which the second compiles and measures nothing and chooses the same."""
    first, second = run(script, folder), run(script, folder)
    assert first["compiled"] > 0
    assert first["tuned"]["measured"] > 0
    assert first["tuned"]["stored"] == 0
    assert second["compiled"] == 0
    assert second["reused"] > 0
    assert second["tuned"] == {**first["tuned"], "measured": 0, "stored": first["tuned"]["measured"]}
    assert second["chosen"] == first["chosen"]
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(CAPTURED, marks=pytest.mark.conformance, id="capture"),
        pytest.param(BACKEND, id="backend"),
    ],
)
def test_a_second_process_compiles_and_measures_nothing(script: str, tmp_path: Path) -> None:
    first, second = check(script, tmp_path)
    assert second["result"] == first["result"]


HASHES = """
import sys
from pathlib import Path
from packages.inductor_frontend.tests.own_kernel_source import hashes
print(*hashes(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_own_kernels_have_one_identity_in_all_processes(tmp_path: Path) -> None:
    """Functions and globals that they use have one order, independent of hashing and of their place."""
    here, there = (tmp_path / name for name in ("here", "there"))
    here.mkdir()
    there.mkdir()
    command = [sys.executable, "-W", "ignore", "-c", HASHES, str(there)]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found = done.stdout.split()
    assert found == hashes(here)
    assert len(set(found)) == 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
def test_the_same_on_a_device(tmp_path: Path) -> None:
    first, second = check(ON_DEVICE, tmp_path)
    torch.testing.assert_close(torch.tensor(second["result"]), torch.tensor(first["result"]))
