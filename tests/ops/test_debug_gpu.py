"""Debug values, ranges and profiles on a GPU: every engine prints the same, times are the device's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import inductor_frontend
from py_wrapper import TORCH_MACHINE
from tests.common import choices
from tests.ops.debug_engines import engines, observe
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes import run_on_artifact
from wrapper_ir_tools.profile import profile_artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(torch.relu(self.linear(x)), -1)


def captured() -> Artifact:
    with torch.device("cuda"):
        return inductor_frontend.capture(Model().eval(), (torch.randn(64, 256),))


@pytest.mark.parametrize("level", ["print", "save", "names"])
def test_all_engines_say_the_same(
    level: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = run_on_artifact(captured(), f"debug-values{{level={level}}}")
    x = torch.randn(64, 256, device="cuda")
    found = observe(artifact, [((x,), {})], tmp_path, capfd, monkeypatch)
    lines, saved = found["interpreter"]
    assert lines or saved
    for name, (others, more) in found.items():
        assert others == lines, name
        assert more == saved, name
    if level == "print":
        assert any(" on cuda:0, 16384 elements" in line for line in lines)


def test_multi_kernels(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch has the name of the multi-kernel, whichever kernel is chosen, from C++ at run time, too."""
    program = choices.program(choices.choosing(by_sizes=True), "cuda:0")
    artifact = run_on_artifact(program, "debug-values{level=print}")
    sizes = (16, 1024)  # for which another kernel is the nearest each
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((torch.arange(float(size), device="cuda"),), {}) for size in sizes
    ]
    found = observe(artifact, calls, tmp_path, capfd, monkeypatch)
    lines, _ = found["interpreter"]
    titles = [line for line in lines if not line.startswith(" ")]
    assert titles == [
        "aoti_model_inputs - x",
        *("before_launch - either - x", "before_launch - either - ws", "before_launch - either - s0"),
        *("after_launch - either - out", "after_launch - either - ws"),
        "aoti_model_outputs - out",
    ] * len(sizes)
    for name, (others, _) in found.items():
        assert others == lines, name


def test_ranges_become_nvtx(tmp_path: Path) -> None:
    """Without Nsight the ranges are unused, but every emitter runs under torch's NVTX mode."""
    made = engines(run_on_artifact(captured(), "profile-ranges"), tmp_path)
    x = torch.randn(64, 256, device="cuda")
    with torch.autograd.profiler.emit_nvtx():  # type: ignore[no-untyped-call]  # torch leaves it so
        results = [function(x) for function in made.values()]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])


def test_times_are_the_devices() -> None:
    profile = profile_artifact(captured(), TORCH_MACHINE)
    assert all(op.device_seconds is not None and op.device_seconds > 0 for op in profile.ops)
    (device,) = profile.limits
    assert device.startswith("cuda")
    assert profile.limits[device] > 1e11
