"""Packed weights: off by default. If enabled, they are opaque constants that are valid in this process only.

An artifact with them can be neither saved nor emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureError, CaptureOptions, capture
from inductor_frontend.torch_patches.pinned_options import inductor_patches
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.file import save
from wrapper_ir.errors import ArtifactError, ExecutionError
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir.text import parse_program, print_program
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]

PACKED = CaptureOptions(packed_weights=True)

needs_mkl = pytest.mark.skipif(not torch._C.has_mkl, reason="Inductor packs f32 for MKL only")
needs_bf16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bf16 on this processor"
)


class Convolutions(nn.Module):
    """Two convolutions, batch normalization that folds into one of them, a sum that does not, and a
    transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.back = nn.ConvTranspose2d(4, 2, 2)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.first(x)).relu()
        return self.back(self.second(y).relu() + y)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def packed(artifact: Artifact) -> list[str]:
    """Returns details of the packed constants, in order."""
    types = [c.value.type for c in artifact.program.constants]
    return [t.detail for t in types if isinstance(t, ir.OpaqueType) and t.kind is ir.OpaqueKind.PACKED]


@pytest.fixture(scope="module")
def convolutions() -> Artifact:
    return capture(Convolutions().eval(), (torch.randn(1, 2, 8, 8),), options=PACKED)


class TestCaptured:
    def test_convolutions(self, convolutions: Artifact, equals_eager: Check) -> None:
        assert packed(convolutions) == ["f32[4, 2, 3, 3]", "f32[4, 4, 3, 3]", "f32[2, 4, 2, 2]"]
        names = {e.name for e in convolutions.program.externs}
        assert names == {"mkldnn::_convolution_pointwise", "mkldnn::_convolution_transpose_pointwise"}
        equals_eager(convolutions, Convolutions().eval(), torch.randn(1, 2, 8, 8))

    @needs_mkl
    def test_multiplications_with_the_plain_weight_beside(self, equals_eager: Check) -> None:
        """MKL packs a weight for one number of rows; for other numbers, the operator uses the plain
        weight."""
        model, x = linear(), torch.randn(4, 16)
        artifact = capture(model, (x,), options=PACKED)
        assert {e.name for e in artifact.program.externs} == {"mkl::_mkl_linear"}
        assert len(packed(artifact)) == 2
        equals_eager(artifact, model, x)

    @needs_bf16
    def test_fused_multiplications(self) -> None:
        model, x = linear().bfloat16(), torch.randn(4, 16).bfloat16()
        artifact = capture(model, (x,), options=PACKED)
        assert {e.name for e in artifact.program.externs} == {"mkldnn::_linear_pointwise"}
        assert packed(artifact) == ["bf16[32, 16]", "bf16[8, 32]"]
        with torch.no_grad():
            want = model(x)
        for got in (call(artifact, machine("torch"), (x,)), emitter("python").compile(artifact)(x)):
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)

    def test_state_is_not_packed(self) -> None:
        class Model(nn.Module):
            count: torch.Tensor

            def __init__(self) -> None:
                super().__init__()
                torch.manual_seed(0)
                self.convolution = nn.Conv2d(2, 2, 1)
                self.register_buffer("count", torch.zeros(1))

            def forward(self, x: torch.Tensor) -> Any:
                self.count.add_(1)
                return self.convolution(x) + self.count

        x = torch.randn(1, 2, 3, 3)
        artifact = capture(Model().eval(), (x,), options=PACKED)
        assert [c.value.name for c in artifact.program.constants if c.mutable] == ["count"]
        assert len(packed(artifact)) == 1
        model, run = Model().eval(), emitter("python").compile(artifact)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)

    def test_the_model_keeps_its_weights(self) -> None:
        model, x = Convolutions().eval(), torch.randn(1, 2, 8, 8)
        with torch.no_grad():
            before = model(x)
            with inductor_config.patch("freezing_discard_parameters", True):
                capture(model, (x,), options=PACKED)
            torch.testing.assert_close(model(x), before)

    def test_equal_captures_give_equal_programs(self, convolutions: Artifact) -> None:
        again = capture(Convolutions().eval(), (torch.randn(1, 2, 8, 8),), options=PACKED)
        assert again.program == convolutions.program


class TestNotPortable:
    def test_saving_is_refused(self, convolutions: Artifact, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match=r"(?s)WIR711.*f32\[4, 2, 3, 3\].*without packed weights"):
            save(convolutions, tmp_path / "model.wir")
        assert list(tmp_path.iterdir()) == []

    def test_writing_python_is_refused(self, convolutions: Artifact, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="WIR711"):
            emitter("python").write(convolutions, tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_the_program_says_so(self, convolutions: Artifact) -> None:
        text = print_program(convolutions.program)
        assert 'packed("f32[4, 2, 3, 3]")' in text
        assert parse_program(text) == convolutions.program

    def test_the_text_alone_does_not_run(self, convolutions: Artifact) -> None:
        bare = bare_artifact(convolutions.program, convolutions.constants)
        x = torch.randn(1, 2, 8, 8)
        with pytest.raises(ExecutionError, match="WIR929"):
            call(bare, machine("torch"), (x,))
        with pytest.raises(ExecutionError, match=r"(?s)WIR929.*is packed"):
            emitter("python").compile(bare)

    def test_torch_compile_refuses_the_option(self) -> None:
        with pytest.raises(Exception, match=r"FE103.*packed_weights"):
            torch.compile(torch.sin, backend="wrapper_ir", options={"packed_weights": True})(torch.randn(2))


def test_off_by_default() -> None:
    pins = inductor_patches(CaptureOptions())
    assert (pins["freezing"], pins["cpp.weight_prepack"]) == (False, False)
    assert packed(capture(linear(), (torch.randn(4, 16),))) == []


def test_what_inductor_cannot_pack_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("no such processor")

    monkeypatch.setattr("inductor_frontend.functionalize.packing.freeze", fail)
    with pytest.raises(CaptureError, match=r"FE104.*cannot pack the weights: no such processor"):
        capture(linear(), (torch.randn(4, 16),), options=PACKED)


needs_fbgemm = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="the operators are FBGEMM's"
)


class QuantisedLinear(nn.Module):
    """Calls one operator, or the two that Inductor splits it into; `leave` returns the result of the
    first."""

    def __init__(self, way: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(32, 16)
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ops = torch.ops._quantized
        quantized = torch.tensor(0.1), torch.tensor(0)
        weights = self.linear.weight, *quantized, self.linear.bias
        out: torch.Tensor
        if self.way == "whole":
            out = ops.wrapped_quantized_linear(x, *quantized, *weights, *quantized, 16)
            return out
        out = ops._wrapped_linear_prepack(*weights)
        if self.way != "leave":
            out = ops._wrapped_quantized_linear_prepacked(x, *quantized, out, *quantized, 16)
        return out


@needs_fbgemm
@pytest.mark.parametrize("options", [CaptureOptions(), PACKED], ids=["plain", "packed"])
@pytest.mark.parametrize("way", ["whole", "parts"])
def test_quantized_linear(way: str, options: CaptureOptions, equals_eager: Check) -> None:
    """Stock torch.compile fails: the handle of packed weights has other sizes than its fake tensor."""
    model, x = QuantisedLinear(way), torch.rand(8, 32)
    equals_eager(capture(model, (x,), options=options), model, x)
    with torch.no_grad():
        compiled: Any = torch.compile(model, backend="wrapper_ir")
        torch.testing.assert_close(compiled(x), model(x))


@needs_fbgemm
def test_packed_weights_of_a_quantized_linear_stay_inside() -> None:
    with pytest.raises(
        CaptureError, match=r"(?s)FE301.*_wrapped_linear_prepack.*hint: call .*quantized_linear"
    ):
        capture(QuantisedLinear("leave"), (torch.rand(8, 32),))
