"""The example device in a separate process, since a process has one device outside of torch's tree: each
case, and its failure.

Usage: `python -m tests.devices.toy_worker FOLDER`: writes `results.json`, and `artifact.wir` of a program for
the device.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor.codegen.common import device_op_overrides_dict

import device_toy  # type: ignore[import-not-found]  # an example, on the path of this process
from inductor_frontend import CaptureError, capture
from inductor_frontend.cache import stats
from inductor_frontend.devices import device_package
from inductor_frontend.devices.targets import capture_target
from inductor_frontend.errors import HookError
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir.verifier import verify
from wrapper_ir_runtime.interp import Interpreter

# Any in this file: results of any emitter.
CASES: dict[str, Callable[[Path], None]] = {}


def case(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Registers a case; its argument is the folder."""
    CASES[function.__name__] = function
    return function


class Model(nn.Module):
    """Matmuls, kernels, a reduction, a buffer that is written, a view."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.count.add_(1)
        y = self.layers(x)
        return y, (y.softmax(-1) + self.count).t()


def _inputs(rows: int = 5) -> Tensor:
    return torch.linspace(-1, 1, rows * 4).reshape(rows, 4)


def _same(actual: Any, expected: Any) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.device == torch.device("toy", 0), a.device
        assert a.stride() == b.stride()
        torch.testing.assert_close(a.cpu(), b)


def _captured() -> Artifact:
    rows = torch.export.Dim("rows", min=2, max=64)
    return capture(Model().eval(), (_inputs(),), target="toy:v2", dynamic_shapes={"x": {0: rows}})


@case
def captured_programs_are_for_the_device(folder: Path) -> None:
    artifact = _captured()
    verify(artifact.program)
    assert artifact.program.target.device == ir.Device("toy", 0)
    assert artifact.program.target.arch == "v2"
    kernels = [k for k in artifact.program.kernels if isinstance(k, ir.ForeignKernel)]
    assert kernels
    assert len(kernels) == len(artifact.program.kernels)
    assert {k.runtime for k in kernels} == {"toy"}
    save(artifact, folder / "artifact.wir")


@case
def programs_run_everywhere(folder: Path) -> None:
    engines: Mapping[str, Callable[[Artifact], Callable[..., Any]]] = {
        "interpreter": lambda artifact: Interpreter(artifact, machine("torch")),
        "python": lambda artifact: emitter("python").compile(artifact),
        "fx": lambda artifact: emitter("fx").compile(artifact),
    }
    save(_captured(), folder / "again.wir")
    for make in engines.values():
        run, model = make(load(folder / "again.wir")), Model().eval()
        for rows in (5, 2, 17):
            x = _inputs(rows)
            _same(run(x.to("toy")), model(x))


def _compiled(model: nn.Module, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(model, backend="wrapper_ir", options={"on_unsupported": "error", **options})


@case
def compiled_models(folder: Path) -> None:
    for name, persistent in (("python", False), ("fx", False), ("python", True), ("fx", True)):
        model = Model().eval()
        on_device = copy.deepcopy(model).to("toy")
        compiled = _compiled(on_device, emitter=name, persistent_buffers=persistent)
        for rows in (5, 6, 7):
            _same(compiled(_inputs(rows).to("toy")), model(_inputs(rows)))
        _same([on_device.count], [model.count])


@case
def training(folder: Path) -> None:
    for name in ("python", "fx"):
        model = Model()
        on_device = copy.deepcopy(model).to("toy")
        compiled = _compiled(on_device, emitter=name)
        for rows in (5, 9):
            for run, x in ((model, _inputs(rows)), (compiled, _inputs(rows).to("toy"))):
                y, z = run(x)
                (y.square().sum() + z.sum()).backward()
        _same([p.grad for p in on_device.parameters()], [p.grad for p in model.parameters()])


@case
def compiled_functions_are_found_again(folder: Path) -> None:
    options = {"cache": str(folder / "cache")}
    for found in (0, 1):
        model = Model().eval()
        with torch.no_grad():
            _same(_compiled(copy.deepcopy(model).to("toy"), **options)(_inputs().to("toy")), model(_inputs()))
        assert (stats().function_hits, stats().lowered) == (found, 1 - found)


@case
def programs_of_this_machine_have_its_architecture(folder: Path) -> None:
    artifact = capture(lambda x: x.sin() + 1, (_inputs().to("toy"),))
    assert artifact.program.target.arch == "v1"
    _same([emitter("python").compile(artifact)(_inputs().to("toy"))], [_inputs().sin() + 1])
    for function in (torch.conj, lambda x: x.new_zeros(2, device="cpu").sin()):  # they do nothing there
        artifact = capture(function, (_inputs().to("toy"),))
        assert str(artifact.program.target.device) == "toy:0"
        found = emitter("python").compile(artifact)(_inputs().to("toy"))
        torch.testing.assert_close(found.cpu(), function(_inputs()))


@case
def properties_are_those_of_the_target(folder: Path) -> None:
    def cores() -> int:
        found: int = (
            torch._dynamo.device_interface.get_interface_for_device("toy")
            .get_device_properties(torch.device("toy", 0))
            .multi_processor_count
        )
        return found

    with capture_target("toy:v2").emulated():
        assert cores() == 16
    assert cores() == 4
    package = device_package("toy")
    assert package is device_toy.DEVICE
    assert package.here() == "v1"


def _refused(code: str, words: str, call: Callable[[], object]) -> None:
    try:
        call()
    except (CaptureError, HookError) as error:
        assert error.code == code, error
        assert words in str(error), error
    else:
        raise AssertionError(f"no {code}")


@case
def refusals(folder: Path) -> None:
    x = _inputs()
    _refused("FE103", "toy:v1, toy:v2", lambda: capture(torch.sin, (x,), target="toy:v9"))
    _refused("FE103", '"toy:ARCH"', lambda: capture(torch.sin, (x,), target="other:v1"))
    _refused("FE103", "not understood", lambda: capture(torch.sin, (x,), target="toy"))
    _refused("FE370", "'broken'", lambda: capture(torch.sin, (x,), target="broken:v1"))
    _refused("FE370", "DevicePackage", lambda: capture(torch.sin, (x,), target="wrong:v1"))
    if since("2.13"):  # before, Inductor uses those of CPUs for a device without its own
        kept = device_op_overrides_dict.pop("toy")
        try:
            _refused(
                "FE202", "register_backend_for_device", lambda: capture(torch.sin, (x,), target="toy:v1")
            )
        finally:
            device_op_overrides_dict["toy"] = kept


def main() -> None:
    """Runs all cases."""
    folder, results = Path(sys.argv[1]), {}
    for name, check in CASES.items():
        try:
            check(folder)
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
