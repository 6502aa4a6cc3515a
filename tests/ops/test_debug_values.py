"""Values shown around kernels and operators: the same lines and files from interpreter, Python, FX and C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.models.model_cases import artifact_of, calls_of, case_of
from tests.ops.debug_engines import Said, observe
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_on_artifact

# Any in this file: arguments of models
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
Observe = Callable[..., Mapping[str, Said]]
HEAD = "wir 0.5\ntarget cpu\n\n"


@pytest.fixture
def said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Returns the output of all engines, the same for each.

    Numbers up to print precision if they are `close`.
    """

    def run(
        artifact: Artifact, calls: Calls, spec: str = "", *, cpp: bool = True, close: bool = False
    ) -> Said:
        shown = run_on_artifact(artifact, spec) if spec else artifact
        found = observe(shown, calls, tmp_path, capfd, monkeypatch, cpp=cpp)
        first = found["interpreter"]
        for name, (lines, files) in found.items():
            if close:
                assert _texts(lines) == _texts(first[0]), name
                assert _numbers(lines) == pytest.approx(_numbers(first[0]), rel=1e-4, abs=1e-7), name
            else:
                assert lines == first[0], name
            assert files == first[1], name
        return first

    return run


_FRACTION = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?|-?\d+e[-+]\d+")


def _texts(lines: list[str]) -> list[str]:
    return [_FRACTION.sub("#", line) for line in lines]


def _numbers(lines: list[str]) -> list[float]:
    return [float(text) for line in lines for text in _FRACTION.findall(line)]


def program(text: str) -> Artifact:
    return bare_artifact(parse_program(HEAD + text))


# --- programs


def test_what_people_write(said: Callable[..., Said]) -> None:
    text = """symbol u0 : int unbacked

func @main(%x: f32[1], %n: int, %f: float, %b: bool) {
  define u0 = item(%n)
  debug print before launch "model.relu" %x, %n "layer 1"
  debug print %f, %b numbers(2*u0)
  debug names after launch "model.relu"
  debug names %x
  return %n
}
"""
    lines, files = said(program(text), [((torch.tensor([-1.0]), 3, 0.5, True), {})])
    assert lines == [
        "layer 1 - before_launch - model.relu - x",
        "  f32[1] strides [1] on cpu",
        "  [-1]",
        "layer 1 - before_launch - model.relu - n",
        "  int 3",
        "f",
        "  float 0.5",
        "b",
        "  bool True",
        "2*u0",
        "  int 6",
        "[ after_launch: model.relu ]",
        "x",
    ]
    assert not files


def _patterns(dtype: ir.DType, count: int) -> Tensor:
    """Elements of every kind that a type has, NaN, infinities, subnormals and negative zero among them."""
    raw = torch.randint(
        0, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=torch.Generator().manual_seed(7)
    )
    if dtype is ir.DType.BOOL:
        raw = raw % 2
    elif dtype.is_floating or dtype.is_complex:
        raw[: 2 * dtype.itemsize] = 0xFF  # NaN
        raw[2 * dtype.itemsize : 4 * dtype.itemsize] = 0
    return raw.view(getattr(torch, dtype.torch_name))


@pytest.mark.parametrize("dtype", ir.DType, ids=lambda d: d.value)
def test_element_types(dtype: ir.DType, said: Callable[..., Said]) -> None:
    """Whole, empty, one element, statistics, and a view that is not contiguous; printed and saved."""
    t = dtype.value
    text = f"""func @main(%one: {t}[], %none: {t}[0, 3], %whole: {t}[3, 4], %many: {t}[5000], %odd: {t}[3, 40]{{1, 3}}) {{
  debug print inputs %one, %none, %whole, %many, %odd
  debug save inputs %one, %none, %whole, %odd to "values/of"
  return
}}
"""
    x = _patterns(dtype, 5000)
    args = (x[5], x[:0].view(0, 3), x[:12].view(3, 4), x, x[:120].view(40, 3).t())
    lines, files = said(program(text), [(args, {})])
    assert f"  {t}[3, 40] strides [1, 3] on cpu, 120 elements" in lines
    assert sorted(files) == [
        f"values/of/aoti_model_inputs_{n}.safetensors" for n in ("none", "odd", "one", "whole")
    ]
    if dtype.is_floating and dtype.itemsize > 1:
        finite = x.double()[x.double().isfinite()]
        mean = re.search(r"mean ([^,]+),", lines[lines.index("aoti_model_inputs - many") + 2])
        assert mean is not None
        assert float(mean[1]) == pytest.approx(finite.mean().item(), rel=1e-4)


def test_saved_files_are_safetensors(said: Callable[..., Said], tmp_path: Path) -> None:
    text = """func @main(%x: f32[2, 3]{1, 2}, %c: c64[2]) {
  debug save inputs %x, %c to "values"
  return
}
"""
    x, c = torch.arange(6.0).view(3, 2).t(), torch.tensor([1 + 2j, 3j])
    said(program(text), [((x, c), {})])
    folder = tmp_path / "cpp" / "values"
    torch.testing.assert_close(
        load_file(folder / "aoti_model_inputs_x.safetensors"), {"aoti_model_inputs_x": x.contiguous()}
    )
    raw = load_file(folder / "aoti_model_inputs_c.safetensors")["aoti_model_inputs_c"]
    torch.testing.assert_close(raw.view(torch.complex64).view(2), c)


CONTROL = """symbol s0 : int backed [1, 64] hint 4

extern "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"
extern "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"

kernel cpp @Twice entry "kernel" (read f32* source, write f32* target, i64 count) {{{
#include <cstdint>
extern "C" void kernel(const float* source, float* target, const int64_t count)
{
    for (int64_t i = 0; i < count; ++i) target[i] = 2 * source[i];
}
}}}

func @main(%x: f32[s0], %p: bool) {
  define s0 = size(%x, 0)
  %a = cond %p then @twice else @plus (%x) : f32[s0]
  %b = while @small do @step carried(%a) captured(%x) : f32[s0]
  free %a
  return %b
}

func @twice(%x: f32[s0]) captures(s0) {
  %y = alloc f32[s0]
  launch @Twice(%x, %y, s0) extents(4*s0, 4*s0)
  return %y
}

func @plus(%x: f32[s0]) captures(s0) {
  %y = alloc f32[s0]
  call aten::add.out(%x, %x, alpha=2, out=%y)
  return %y
}

func @small(%v: f32[s0], %w: f32[s0]) captures(s0) {
  %t = call aten::sum(%v) : f32[]
  %r = call aten::lt.Scalar(%t, 100.0) : bool[]
  free %t
  return %r
}

func @step(%v: f32[s0], %w: f32[s0]) captures(s0) {
  %y = alloc f32[s0]
  launch @Twice(%v, %y, s0) extents(4*s0, 4*s0)
  return %y
}
"""


@pytest.mark.parametrize("level", ["print", "save", "names", "off"])
def test_branches_loops_and_dynamic_sizes(level: str, said: Callable[..., Said]) -> None:
    calls: Calls = [((torch.arange(1.0, 5), True), {}), ((torch.arange(1.0, 3), False), {})]
    lines, files = said(program(CONTROL), calls, f"debug-values{{level={level}}}", cpp=level != "off")
    launches = [line for line in lines if line == "[ before_launch: Twice ]"]
    trips = [f for f in files if f.startswith("debug_values/after_launch_Twice_y")]
    assert len(launches) == (4 + 4 if level == "names" else 0), lines
    assert len(trips) == (4 + 4 if level == "save" else 0)
    if level == "print":
        assert "before_launch - Twice - s0" in lines
        assert "  int 4" in lines
        assert "after_launch - aten::add.out - y" in lines
        assert lines[-2:] == ["  f32[2] strides [1] on cpu", "  [48, 96]"]
    if level == "off":
        assert (lines, files) == ([], {})


def test_off_is_the_same_object() -> None:
    artifact = program(CONTROL)
    assert run_on_artifact(artifact, "debug-values{level=off}").program is artifact.program
    assert run_on_artifact(artifact, "debug-values{level=0}").program is artifact.program


@pytest.mark.parametrize("level", ["print", "save", "names"])
@pytest.mark.parametrize("pattern", ["twice", " tw*, nothing? ", "*::add*", "TWICE,aten::sum"])
def test_filters(level: str, pattern: str, said: Callable[..., Said]) -> None:
    spec = f'debug-values{{level={level},inputs=false,outputs=false,filter="{pattern}"}}'
    if "nothing" in pattern:
        with pytest.warns(Warning, match=r"WIR806.*'nothing\?'"):
            lines, files = said(program(CONTROL), [((torch.ones(3), True), {})], spec)
    else:
        lines, files = said(program(CONTROL), [((torch.ones(3), "add" not in pattern), {})], spec)
    titles = {line.split(" - ")[1] for line in lines if " - " in line and "launch" in line}
    titles |= {line[:-2].split(": ")[1] for line in lines if line.startswith("[ ")}
    titles |= {
        re.sub(r".*_launch_(.+)_[a-z](_\d+)?\.safetensors", r"\1", f).replace("__", "::") for f in files
    }
    assert titles == {
        "twice": {"Twice"}, " tw*, nothing? ": {"Twice"}, "*::add*": {"aten::add.out"},
        "TWICE,aten::sum": {"Twice", "aten::sum"},
    }[pattern]  # fmt: skip


# --- models

QUICK = ("mlp-static", "mlp-dynamic", "moe-static", "lstm-static")
MODELS = [
    f"{name}-{shapes}"
    for name in ("mlp", "gpt2", "bert", "t5", "moe", "convnet", "lstm")
    for shapes in ("static", "dynamic")
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.conformance) for n in MODELS]
)
def test_models(name: str, said: Callable[..., Said]) -> None:
    """oneDNN's LSTM layer rounds depending on its memory's address, which differs between engines."""
    model, shapes = name.split("-")
    is_dynamic = shapes == "dynamic"
    artifact, calls = artifact_of(model, is_dynamic), calls_of(case_of(model), is_dynamic)
    lines, _ = said(artifact, calls, "debug-values{level=print}", close=model == "lstm")
    kernels = {op.kernel for f in artifact.program.functions for op in f.body if hasattr(op, "kernel")}
    assert {line.split(" - ")[1] for line in lines if line.startswith("after_launch")} >= kernels
    assert lines[0].startswith("aoti_model_inputs - ")
