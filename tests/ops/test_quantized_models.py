"""Matmuls with int8 weights in captures: visible to `pack-constants`, and equal to eager mode in every engine."""

from __future__ import annotations

import pytest
import torch

import py_wrapper
from inductor_frontend import capture
from tests.common.compare import assert_same
from tests.ops.packed_models import ENGINES
from tests.ops.quantized_models import MODELS, Quantized, dequantized, quantized_model, static
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.packing import model_names
from wrapper_ir_torch import with_constants

_PACKED = "wrapper_ir::packed_addmm_int8.out"
_EXACT = ("dynamic_rows", "static", "symmetric", "dynamic")


def _targets(artifact: Artifact) -> list[str]:
    return [op.target for op in artifact.program.ops_of(ir.CallExtern)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_quantized_models_equal_eager(name: str) -> None:
    """Also with packed weights, and after an update of weights by the model's names."""
    if name == "dynamic_rows" and torch.__version__ < "2.12":
        pytest.skip("the exported product has rows without sign, which this torch refuses")
    tolerance = 0.02 if name == "bfloat16" else 1e-5
    model, artifact, args = quantized_model(name)
    _, packed, _ = quantized_model(name, "pack-constants")
    matmul = "aten::_int_mm.out" if name in _EXACT else "aten::mm.out"
    assert _targets(artifact).count(matmul) == 2
    assert _targets(packed).count(_PACKED) == 2
    assert {"aten::_to_copy", matmul}.isdisjoint(_targets(packed))
    with torch.no_grad():
        for one in (artifact, packed):
            for engine in ENGINES.values():
                assert_same(engine(one)(*args), model(*args), rtol=tolerance, atol=tolerance)
        for layer in model.layers:
            assert isinstance(layer.weight, torch.Tensor)
            layer.weight.copy_(layer.weight.flip(0))
        names = model_names(packed.program)
        updated = with_constants(packed, {n: t for n, t in model.state_dict().items() if n in names})
        for engine in ENGINES.values():
            assert_same(engine(updated)(*args), model(*args), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("linear", [static, dequantized])
def test_weights_with_zero_points_stay(linear: object) -> None:
    assert callable(linear)
    model = Quantized(linear).eval()
    for layer in model.layers:
        assert isinstance(layer.zero_point, torch.Tensor)
        layer.zero_point[3] = 2
    x = torch.randn(7, 20)
    with torch.no_grad():
        artifact = capture(model, (x,))
        assert set(_targets(artifact)) == {"aten::addmm.out"}
        assert_same(py_wrapper.compile(artifact)(x), model(x), rtol=1e-5, atol=1e-5)


def test_written_weights_stay() -> None:
    """A weight that the model writes is read anew in each call."""

    class Writes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.ones(20, 20, dtype=torch.int8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert isinstance(self.weight, torch.Tensor)
            y = x @ self.weight.t().float()
            self.weight.add_(1)
            return y

    artifact = capture(Writes(), (torch.randn(7, 20),))
    assert "aten::_to_copy" not in _targets(artifact)
