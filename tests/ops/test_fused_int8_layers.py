"""Matmuls with int8 weights that are fused with what surrounds them: which ops, and their results in every emitter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inductor_frontend import CaptureOptions, capture
from tests.native.native_case import build_native
from tests.ops.packed_models import ENGINES
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.native import INT8_LINEAR
from wrapper_ir.text import print_program
from wrapper_ir_passes import run_on_artifact

FUSED = CaptureOptions(fused_int8_layers=True)
_EPS = torch.finfo(torch.float32).eps


class Layers(nn.Module):
    """Two layers whose weights are int8, with a scale for each output."""

    def __init__(self, body: Callable[[Layers, Tensor], Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.body = body
        for name, (outputs, inputs) in {"first": (40, 20), "second": (18, 40)}.items():
            weight = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8, generator=generator)
            self.register_buffer(name, weight)
            self.register_buffer(f"{name}_scale", torch.rand(outputs, generator=generator) / 400 + 0.001)
            self.register_buffer(f"{name}_bias", torch.randn(outputs, generator=generator))

    def part(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """Returns a weight, its scales and bias."""
        buffers = dict(self.named_buffers())
        return buffers[name], buffers[f"{name}_scale"], buffers[f"{name}_bias"]

    def forward(self, x: Tensor) -> Tensor:
        """Returns numbers for each row."""
        return self.body(self, x)


def floats(layers: Layers, x: Tensor, name: str) -> Tensor:
    """As torchao's weights alone, of any number of dimensions."""
    weight, scale, bias = layers.part(name)
    y = torch.mm(x.reshape(-1, x.shape[-1]), weight.t().to(x.dtype)) * scale
    return y.reshape(*x.shape[:-1], y.shape[-1]) + bias


def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as torchao rounds them."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    low, high = torch.min(low, torch.zeros_like(low)), torch.max(high, torch.zeros_like(high))
    scale = torch.clamp(torch.max(-low, high) / 127.5, min=_EPS)
    zero_point = torch.full_like(scale, 0).to(torch.int8)
    rows = torch.clamp(torch.round(x * (1.0 / scale)) + zero_point, -128, 127).to(torch.int8)
    return rows, scale


def integers(layers: Layers, rows: Tensor, scale: Tensor, name: str) -> Tensor:
    """As torchao's product of rounded rows."""
    weight, column_scale, bias = layers.part(name)
    flat = rows.reshape(-1, rows.shape[-1])
    y = torch._int_mm(flat, weight.t()).to(torch.float32) * scale.reshape(-1, 1)
    y = y * column_scale
    return y.reshape(*rows.shape[:-1], y.shape[-1]) + bias


def _both(layers: Layers, x: Tensor) -> Tensor:
    rows, scale = rounded(x)
    return integers(layers, rows, scale, "first") + F.gelu(integers(layers, rows, scale, "first") * 2)


_BODIES: dict[str, tuple[Callable[[Layers, Tensor], Tensor], list[str]]] = {
    "floats": (lambda m, x: floats(m, F.relu(floats(m, x, "first")), "second"),
               ['"exact", "relu"', '"exact", "none"']),
    "an activation": (lambda m, x: F.gelu(floats(m, x, "first")), ['"exact", "gelu"']),
    "rounded rows": (
        lambda m, x: integers(m, *rounded(F.relu(integers(m, *rounded(x), "first"))), "second"),
        ['"int8", "relu"', '"int8", "none"'],
    ),
    "rows that two layers read": (_both, ['"exact", "none"', '"exact", "none"']),
}  # fmt: skip


def _calls(artifact: Artifact) -> list[str]:
    lines = print_program(artifact.program).splitlines()
    return [line for line in lines if f" call {INT8_LINEAR.name}(" in line]


@pytest.mark.slow
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", _BODIES)
def test_layers(name: str, dims: int, tmp_path: Path) -> None:
    """Also of three dimensions, packed, and with rows that may be rounded; a native library of those."""
    body, ends = _BODIES[name]
    model, x = Layers(body).eval(), torch.linspace(-2, 3, 6 * 20).view(6, 20)
    x = x if dims == 2 else x.view(2, 3, 20)
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    with torch.no_grad():
        artifact = capture(model, (x,), dynamic_shapes=shapes, options=FUSED)
        calls = _calls(artifact)
        assert len(calls) == len(ends)
        assert all(end in call for end, call in zip(ends, calls, strict=True))
        x = torch.cat([x, x * 3])
        want = model(x)
        for passes in ("", "pack-constants", "pack-constants{rounds_rows=true}"):
            one = run_on_artifact(artifact, passes) if passes else artifact
            for engine in ENGINES.values():
                torch.testing.assert_close(engine(one)(x), want, rtol=1e-4, atol=1e-3)
        if dims == 2:
            torch.testing.assert_close(build_native(one, tmp_path)((x,))[0], want, rtol=1e-4, atol=1e-2)


def test_an_option_is_off_by_default() -> None:
    with torch.no_grad():
        program = capture(Layers(lambda m, x: floats(m, x, "first")), (torch.randn(3, 20),)).program
    assert not any(op.target == INT8_LINEAR.name for op in program.ops_of(ir.CallExtern))


_LEFT: dict[str, Callable[[Layers, Tensor], Tensor]] = {
    "nothing follows": lambda m, x: torch.mm(x, m.part("first")[0].t().to(x.dtype)),
    "a product that is read twice": lambda m, x: (
        (y := torch.mm(x, m.part("first")[0].t().to(x.dtype))) * m.part("first")[1] + y
    ),
    "doubles": lambda m, x: floats(m, x.double(), "first"),
    "floats": lambda m, x: F.linear(x, m.part("first")[0].float().flip(0), m.part("first")[2]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _LEFT)
def test_what_stays(name: str) -> None:
    model, x = Layers(_LEFT[name]).eval(), torch.randn(3, 20)
    with torch.no_grad():
        artifact = capture(model, (x,), options=FUSED)
        assert not _calls(artifact)
        torch.testing.assert_close(ENGINES["python"](artifact)(x), model(x))
