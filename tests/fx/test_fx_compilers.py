"""Other compilers behind the graph: the example in `examples/launch_batches`, found like an installed
package.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import KERNELS, find_runtime

import fx_converter
import inductor_frontend
import wrapper_ir
from fx_converter import FxOptions
from tests.common.compare import assert_same
from tests.fx.recording import Recording
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import PluginError

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "launch_batches"
CHAIN = f"""wir 0.5
target cpu

{KERNELS}
func @main(%x: f32[4]) {{
  comment "four launches in a row"
  %a = alloc f32[4]
  launch @double(%x, %a, 4)
  %b = alloc f32[4]
  launch @double(%a, %b, 4)
  free %a.s
  launch @increment(%b)
  %c = alloc f32[4]
  launch @double(%b, %c, 4)
  free %b.s
  return %c
}}
"""


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, value: str) -> None:
    """A distribution with one entry point."""
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[wrapper_ir.fx_compilers]\ncpu = {value}\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:  # Any: no installed package
    assert 'cpu = "launch_batches:COMPILER"' in (FOLDER / "pyproject.toml").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(str(FOLDER))
    install(monkeypatch, tmp_path / "site", "launch_batches", "launch_batches:COMPILER")
    yield import_module("launch_batches")
    torch._dynamo.reset()


def chain() -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(CHAIN))


def test_launches_become_one(installed: Any) -> None:
    module = fx_converter.convert(chain(), FxOptions(find_runtime=find_runtime, convention="flat"))
    assert "comment" not in [getattr(n.target, "__name__", "") for n in module.graph.nodes]  # a lowering
    assert installed.batch_launches(module.graph) == 1
    module.graph.lint()
    names = [getattr(n.target, "__name__", n.op) for n in module.graph.nodes]
    assert names == [
        "placeholder",
        "check_inputs",
        "check_storages",
        *["_empty_strided_cpu"] * 3,
        "submit_4",
        *["free"] * 2,
        "output",
    ]


def test_the_emitter_goes_through_the_compiler(installed: Any) -> None:
    run = fx_converter.compile(chain(), FxOptions(find_runtime=find_runtime))
    x = torch.arange(4.0)
    assert_same(run(x), (((x * 4) + 1) * 2,))
    args = [x]
    assert_same(run.boxed(args), (((x * 4) + 1) * 2,))
    assert args == []


def test_models_go_through_it(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.compile` with the emitter's name, and capture ahead of time."""
    taken: list[int] = []
    batch = installed.batch_launches
    monkeypatch.setattr(installed, "batch_launches", lambda graph: taken.append(batch(graph)))

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).cumsum(0).relu()

    x = torch.randn(5, 7)
    compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": "fx", "cache": False})
    assert_same(compiled(x), model(x))
    ahead = fx_converter.compile(inductor_frontend.capture(model, (x,)))
    assert_same(ahead(x), model(x))
    assert len(taken) == 2
    assert all(count >= 1 for count in taken)


def test_two_compilers_for_one_device_are_an_error(
    installed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path / "other", "other_batches", "other_batches:COMPILER")
    with pytest.raises(PluginError, match="WIR902"):
        fx_converter.compile(chain(), FxOptions(find_runtime=find_runtime))


def test_a_compiler_can_be_chosen_and_takes_single_ops(installed: Any) -> None:
    text = "wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[4]) {\n  %y = alloc f32[4]\n  copy %y, %x\n"
    text += "  copy %y, %x non_blocking\n  return %y\n}\n"
    compiler = Recording()
    artifact = bare_artifact(wrapper_ir.parse_program(text))
    run = fx_converter.compile(artifact, FxOptions(compilers={"cpu": compiler}))
    assert_same(run(torch.ones(4)), (torch.ones(4),))
    assert compiler.seen == ["copy__default"]
    other = fx_converter.compile(artifact, FxOptions(compilers={}))
    assert_same(other(torch.ones(4)), (torch.ones(4),))
    assert compiler.seen == ["copy__default"]
