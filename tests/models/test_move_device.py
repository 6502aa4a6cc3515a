"""Programs moved to another device than their capture's: they run there, equal to eager; and torch's
operators for one type of device.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

import fx_converter
import py_wrapper
import wrapper_ir
from inductor_frontend import CaptureOptions, capture
from tests.common.compare import assert_same
from tests.common.torch_versions import since
from tests.common.zoo import ZOO
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import PassError
from wrapper_ir.plugins.registry import machine
from wrapper_ir_passes import run_on_artifact, run_pipeline
from wrapper_ir_passes.devices.device_operators import ONE_DEVICE, only_device
from wrapper_ir_passes.devices.move_device import devices_of
from wrapper_ir_runtime.interp import call
from wrapper_ir_tools.cli.main import main

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

CUDA = ir.Device("cuda", 0)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def attention(x: Tensor, w: Tensor) -> Tensor:
    scores = torch.softmax((x @ w) @ x.transpose(-1, -2) / 8, -1)
    return torch.nn.functional.layer_norm(torch.nn.functional.gelu(scores @ x) + x, (x.shape[-1],))


def on_host(x: Tensor, w: Tensor) -> Tensor:
    """Replaces tensors on the device by host tensors, by name."""
    mask = torch.ones(x.shape[0], x.shape[0], device=x.device).tril()
    return mask @ x * torch.arange(x.shape[1], device=x.device) + w.mean()


def for_a_gpu(function: Callable[..., Any], args: Any, kwargs: Any = None) -> Artifact:  # Any: a model's own
    return capture(function, args, kwargs, target="cuda:sm_90")


def runs(artifact: Artifact) -> list[Callable[..., Any]]:
    return [
        lambda *a, **k: call(artifact, machine("torch"), a, k),
        py_wrapper.compile(artifact),
        fx_converter.compile(artifact),
    ]


@pytest.mark.parametrize("function", [attention, on_host])
def test_functions_for_a_gpu_run_on_a_cpu(function: Callable[..., Any]) -> None:
    args = (torch.randn(16, 64), torch.randn(64, 64))
    artifact = for_a_gpu(function, args)
    assert CUDA in devices_of(artifact.program)
    moved = run_on_artifact(artifact, "move-device{to=cpu}")
    assert devices_of(moved.program) == (ir.CPU,)
    assert moved.program.kernels == artifact.program.kernels
    for run in runs(moved):
        assert_same(run(*args), function(*args))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "lstm", pytest.param("moe", marks=pytest.mark.conformance)])
def test_models_for_a_gpu_run_on_a_cpu(name: str, tmp_path: Path) -> None:
    """Constants come along, also through a file and the command line."""
    case = ZOO[name]()
    wrapper_ir.save(for_a_gpu(case.model, case.args, case.kwargs), tmp_path / "gpu.wir")
    arguments = [
        "opt",
        str(tmp_path / "gpu.wir"),
        "--pass",
        "move-device{to=cpu}",
        "-o",
        str(tmp_path / "cpu.wir"),
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    moved = wrapper_ir.load(tmp_path / "cpu.wir")
    with torch.no_grad():
        want = case.model(*case.args, **(case.kwargs or {}))
        assert_same(py_wrapper.compile(moved)(*case.args, **(case.kwargs or {})), want)


def test_triton_kernels_of_a_cpu_go_to_a_gpu_and_back() -> None:
    args = (torch.randn(16, 64), torch.randn(64, 64))
    artifact = capture(attention, args, options=CaptureOptions(cpu_kernels="triton"))
    there = run_on_artifact(artifact, "move-device{to=cuda:3,arch=sm_90}")
    assert devices_of(there.program) == (ir.Device("cuda", 3),)
    assert there.program.target.arch == "sm_90"
    back = run_on_artifact(there, "move-device{to=cpu}")
    assert back.program == artifact.program
    assert_same(py_wrapper.compile(back)(*args), attention(*args))


def test_random_numbers_of_the_new_device() -> None:
    artifact = for_a_gpu(lambda x: torch.nn.functional.dropout(x, 0.5), (torch.ones(64, 64),))
    moved = run_on_artifact(artifact, "move-device{to=cpu}")
    assert [r.device for r in artifact.signature.random] == [CUDA]
    assert [r.device for r in moved.signature.random] == [ir.CPU]
    out = py_wrapper.compile(moved)(torch.ones(64, 64))
    assert set(out.unique().tolist()) == {0.0, 2.0}


REFUSED = {
    "attention of a GPU's library": (
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
        torch.randn(1, 2, 16, 16),
        "exists for cuda only",
    ),
    "a convolution": (
        lambda x: torch.nn.functional.conv2d(x, x[:, :, :2, :2]),
        torch.randn(2, 3, 8, 8),
        "other strides",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_for_a_gpu_only_says_so(name: str) -> None:
    function, x, words = REFUSED[name]
    program = for_a_gpu(function, (x,)).program
    with pytest.raises(PassError, match=words) as caught:
        run_pipeline(program, "move-device{to=cpu}")
    assert caught.value.code == "WIR807"
    assert run_pipeline(program, "move-device{to=cuda:1}") != program


def test_cpp_kernels_stay_on_a_cpu() -> None:
    program = capture(attention, (torch.randn(16, 64), torch.randn(64, 64))).program
    with pytest.raises(PassError, match="C\\+\\+ for a CPU"):
        run_pipeline(program, "move-device{to=cuda:0}")


# --- what torch declares


def declared() -> dict[str, tuple[bool, bool]]:
    """Returns by overload whether torch declares it for CPUs and for CUDA."""
    torchgen, yaml = pytest.importorskip("torchgen"), pytest.importorskip("yaml")
    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    entries = {e["func"].split("(")[0]: e for e in yaml.safe_load(path.read_text(encoding="utf-8"))}

    def keys(entry: dict[str, Any]) -> set[str]:
        return {key.strip() for names in entry.get("dispatch", {}) for key in names.split(",")}

    found = {}
    for name, entry in entries.items():
        there = keys(entry) | keys(entries.get(entry.get("structured_delegate", ""), {}))
        if there and not any(key.startswith("Composite") for key in there):
            found[name] = ("CPU" in there, "CUDA" in there)
    return found


def test_operators_of_one_device_are_those_that_torch_declares() -> None:
    # for CUDA alone before these versions: the table, which knows no versions, lets them through
    later = {"_philox_": "2.15", "_scaled_mm_v2": "2.13"}
    table = {
        n: there
        for n, there in declared().items()
        if all(since(v) or not n.startswith(p) for p, v in later.items())
    }
    wrong = [
        name
        for name, there in table.items()
        if any(there) and "_test_" not in name and not name.startswith("_foobar")
        if only_device(f"aten::{name}") != {(True, False): "cpu", (False, True): "cuda"}.get(there, "")
    ]
    assert wrong == []


def test_the_table_names_operators_that_there_are() -> None:
    known = {name.partition(".")[0] for name in declared()} | set(declared())
    listed = {name.removeprefix("aten::") for name in ONE_DEVICE if name.startswith("aten::")}
    assert len(listed - known) <= 10  # some are only in other versions of torch
