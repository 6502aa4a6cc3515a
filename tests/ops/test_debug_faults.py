"""Faults of Inductor's own printer of values, each of which is absent here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config

import cpp_wrapper
import inductor_frontend
from inductor_frontend import CaptureOptions
from inductor_frontend.errors import CaptureError
from inductor_frontend.settings import DebugLevelName
from tests.common.choices import choosing, program
from tests.ops.debug_engines import Said, observe
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugWarning
from wrapper_ir_passes import run_on_artifact

# Any in this file: arguments of models, options
Lines = Callable[..., list[str]]


@pytest.fixture
def lines(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Returns the printed lines of each engine, compared with the interpreter's."""

    def run(artifact: Artifact, args: tuple[Any, ...], *, cpp: bool = True) -> list[str]:
        found = observe(artifact, [(args, {})], tmp_path, capfd, monkeypatch, cpp=cpp)
        said: Said = found["interpreter"]
        assert all(one[0] == said[0] for one in found.values())
        return said[0]

    return run


class Scaled(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (torch.mm(x, y) * 2).relu()


def captured(level: DebugLevelName, model: nn.Module | None = None, *args: Tensor) -> Artifact:
    given = args or (torch.arange(100.0).view(10, 10), torch.eye(10))
    return inductor_frontend.capture(model or Scaled(), given, options=CaptureOptions(debug_values=level))


def test_the_element_type_is_the_element_type(lines: Lines) -> None:
    """Inductor's C++ prints the mean after "Dtype:"."""
    shown = lines(captured("print"), (torch.arange(100.0).view(10, 10), torch.eye(10)))
    at = shown.index(
        "aoti_model_inputs - arg0_1" if "aoti_model_inputs - arg0_1" in shown else "aoti_model_inputs - x"
    )
    assert shown[at + 1] == "  f32[10, 10] strides [10, 1] on cpu, 100 elements"
    assert shown[at + 2] == "  mean 49.5, min 0, max 99, std 29.0115, nan 0, inf 0"


def test_names_alone_are_printed_by_python_too(lines: Lines) -> None:
    """Inductor's level 3 does nothing in its Python wrapper."""
    artifact = captured("names")
    launched = [op.kernel for op in artifact.program.main.body if hasattr(op, "kernel")]
    shown = lines(artifact, (torch.ones(10, 10), torch.eye(10)))
    for kernel in launched:
        assert shown.count(f"[ before_launch: {kernel} ]") == shown.count(f"[ after_launch: {kernel} ]") == 1
    assert launched
    assert all(re.fullmatch(r"\[ (before|after)_launch: .+ \]", line) for line in shown)


def test_a_multi_kernel_does_not_switch_it_off(lines: Lines) -> None:
    """Inductor's printer is off from the first multi-kernel on."""
    text = choosing(True).replace(
        "  free %ws.s\n  return %out\n",
        "  launch @either(%out, %x2, s0, %ws) grid(ceildiv(s0, 16))\n  free %ws.s\n  free %out.s\n  return %x2\n",
    )
    text = text.replace("  %out = alloc f32[s0]\n", "  %out = alloc f32[s0]\n  %x2 = alloc f32[s0]\n")
    spec = 'debug-values{filter="SPLIT, nothing*"}'
    with pytest.warns(DebugWarning, match=r"WIR806.*'nothing\*'"):
        artifact = run_on_artifact(program(text), spec)
    shown = lines(artifact, (torch.arange(100.0),), cpp=False)  # C++ launches Triton kernels on GPUs alone
    titles = [line for line in shown if not line.startswith(" ")]
    assert titles == [
        "aoti_model_inputs - x",
        *("before_launch - either - x", "before_launch - either - ws", "before_launch - either - s0"),
        *("after_launch - either - out", "after_launch - either - ws"),
        *("before_launch - either - out", "before_launch - either - ws", "before_launch - either - s0"),
        *("after_launch - either - x2", "after_launch - either - ws"),
        "aoti_model_outputs - x2",
    ]
    assert shown[shown.index("after_launch - either - x2") + 2].startswith("  mean 198, min 0, max 396, std ")
    with pytest.warns(DebugWarning):
        on_gpu = run_on_artifact(program(text, device="cuda"), spec)
    written = re.findall(r'show\("([^"]+)"', str(cpp_wrapper.emit(on_gpu)))
    assert written == titles


def test_arguments_of_operators_have_any_name(lines: Lines) -> None:
    """Inductor shows those alone whose names begin with `buf` or `arg`, numbers never."""
    text = """
extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

func @main(%Left: f32[2], %"right hand": f32[2], %scale: int) {
  define s0 = item(%scale)
  %sum = alloc f32[2]
  call aten::add.out(%Left, %"right hand", alpha=s0, out=%sum)
  return %sum
}
"""
    artifact = run_on_artifact(program(text), "debug-values{inputs=false,outputs=false}")
    assert lines(artifact, (torch.ones(2), torch.ones(2), 3)) == [
        "before_launch - aten::add.out - Left",
        "  f32[2] strides [1] on cpu",
        "  [1, 1]",
        "before_launch - aten::add.out - right hand",
        "  f32[2] strides [1] on cpu",
        "  [1, 1]",
        "before_launch - aten::add.out - s0",
        "  int 3",
        "after_launch - aten::add.out - sum",
        "  f32[2] strides [1] on cpu",
        "  [4, 4]",
    ]


def test_numbers_are_printed_by_their_type(lines: Lines) -> None:
    """Inductor's C++ prints floats with `%ld`."""
    text = """
kernel cpp @scale entry "kernel" (readwrite f32* x, f64 factor, i64 count, bool on) {{{
#include <cstdint>
extern "C" void kernel(float* x, const double factor, const int64_t count, const bool on)
{
    for (int64_t i = 0; on && i < count; ++i) x[i] *= factor;
}
}}}

func @main(%x: f32[2], %factor: float, %count: int, %on: bool) {
  launch @scale(%x, %factor, %count, %on) extents(8)
  return
}
"""
    artifact = run_on_artifact(program(text), "debug-values{inputs=false}")
    shown = lines(artifact, (torch.tensor([1.0, 2.0]), 0.1, 2, True))
    assert shown[3:9] == [
        "before_launch - scale - factor",
        "  float 0.1",
        "before_launch - scale - count",
        "  int 2",
        "before_launch - scale - on",
        "  bool True",
    ]
    assert shown[-1] == "  [0.1, 0.2]"


# --- the way there


@pytest.fixture
def quiet() -> Iterator[None]:
    yield
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
@pytest.mark.parametrize("given", ["option", "inductor", "config", "variable", "passes"])
def test_ways_to_ask_for_values(
    emitter: str,
    given: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Options of the backend and of Inductor, its configuration, and the environment's variables mean the
    same.
    """
    name = "aot_inductor.debug_intermediate_value_printer"
    options: dict[str, Any] = {"emitter": emitter, "cache": str(tmp_path)}
    options |= {"option": {"debug_values": "names"}, "inductor": {name: "3"}}.get(given, {})
    options |= {"passes": "debug-values{level=names}"} if given == "passes" else {}
    if given == "variable":
        monkeypatch.setenv("WRAPPER_IR_DEBUG_VALUES", "3")
    compiled = torch.compile(Scaled(), backend="wrapper_ir", options=options)
    with torch.no_grad(), inductor_config.patch({name: "3" if given == "config" else "0"}):
        compiled(torch.ones(10, 10), torch.eye(10))
    shown = [line for line in capfd.readouterr().out.splitlines() if "_launch" in line]
    assert shown[0] == "[ before_launch: aten::mm.out ]"
    assert len(shown) == 4


def test_the_filter_of_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"debug_intermediate_value_printer": "2", "filtered_kernel_names": "a, B*"}
    with inductor_config.patch({f"aot_inductor.{name}": value for name, value in settings.items()}):
        options = CaptureOptions()
    assert (options.debug_values, options.debug_filter) == ("print", "a, B*")
    assert CaptureOptions().debug_pass is None
    monkeypatch.setenv("WRAPPER_IR_DEBUG_VALUES", "loud")
    with pytest.raises(CaptureError, match=r"FE103.*WRAPPER_IR_DEBUG_VALUES is 'loud'"):
        CaptureOptions()
