"""Packed programs in every engine with torch: equal to eager mode, also after updates of weights."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import fx_converter
import py_wrapper
from tests.common.compare import assert_same
from tests.ops.packed_models import ENGINES, MODELS, Transformer, packed_model
from wrapper_ir.artifact.file import load, save
from wrapper_ir.artifact.packing import model_names
from wrapper_ir.errors import ArtifactError
from wrapper_ir.operators.native import ATTENTION, PACKED_ADDMM, PACKED_ADDMM_INT8, PACKED_CONVOLUTION
from wrapper_ir_torch import resolve, with_constants


@pytest.mark.parametrize("name", MODELS)
def test_packed_programs_equal_eager(name: str, tmp_path: Path) -> None:
    """Also from a file, with planned memory, and after an update of all weights by the model's names."""
    model, artifact, args = packed_model(name)
    assert any(c.packing is not None for c in artifact.program.constants)
    save(artifact, tmp_path / "m.wir")
    artifact = load(tmp_path / "m.wir")
    with torch.no_grad():
        for engine in ENGINES.values():
            assert_same(engine(artifact)(*args), model(*args))
        passes = "use-out-variants{runtime=native},pack-constants{level=generic},plan-memory"
        _, planned, _ = packed_model(name, passes)
        assert_same(py_wrapper.compile(planned)(*args), model(*args))
        for parameter in model.parameters():
            parameter.mul_(-0.75)
        names = model_names(artifact.program)
        updated = with_constants(artifact, {n: t for n, t in model.state_dict().items() if n in names})
        for engine in ENGINES.values():
            assert_same(engine(updated)(*args), model(*args))


@pytest.mark.parametrize("name", MODELS)
def test_unpacked_programs_equal_eager(name: str) -> None:
    """Constants have the names, types and bytes of the model again."""
    passes = "use-out-variants{runtime=native},pack-constants,plan-memory"
    model, artifact, args = packed_model(name, f"{passes},unpack-constants")
    _, captured, _ = packed_model(name, "strip-debug")
    assert not any(c.packing is not None for c in artifact.program.constants)
    before = {c.value: c for c in captured.program.constants}
    assert all(before[c.value].data_hash == c.data_hash for c in artifact.program.constants)
    assert all(before[c.value].names == c.names for c in artifact.program.constants)
    with torch.no_grad():
        assert_same(py_wrapper.compile(artifact)(*args), model(*args))


@pytest.mark.parametrize("name", ["tied", "convolutions"])
def test_states_of_graph_modules(name: str) -> None:
    """A state has the model's names and shapes, also in a copy; loading packs new values."""
    model, artifact, args = packed_model(name)
    module = fx_converter.convert(artifact)
    copied = copy.deepcopy(module)
    want = model.state_dict()
    state = module.state_dict()
    assert set(state) <= set(want)
    assert all(torch.equal(state[key], want[key]) for key in state)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.75)
        copied.load_state_dict(model.state_dict())
        assert_same(copied(*args), model(*args))
        assert all(torch.equal(value, want[key]) for key, value in copied.state_dict().items())


@pytest.mark.parametrize("case", ["name", "shape", "dtype"])
def test_refused_values(case: str) -> None:
    _, artifact, _ = packed_model("mlp")
    value = {"name": torch.zeros(24, 8), "shape": torch.zeros(8, 24), "dtype": torch.zeros(24, 8).half()}[
        case
    ]
    with pytest.raises(ArtifactError, match="WIR719"):
        with_constants(artifact, {"weight" if case == "name" else "0.weight": value})


def test_a_packed_file_is_not_larger() -> None:
    """Originals are dropped, except a tied one; the last panel of a weight is padded."""
    for name in ("mlp", "transformer"):
        model, packed, _ = packed_model(name)
        stored = sum(data.nbytes for data in packed.constants.values())
        weights = [parameter for parameter in model.parameters() if parameter.dim() == 2]
        padding = sum(4 * (-weight.size(0) % 16) * weight.size(1) for weight in weights)
        tied = model.wte.weight.nbytes if isinstance(model, Transformer) else 0
        assert stored <= sum(parameter.nbytes for parameter in model.parameters()) + padding + tied


def _packed(matrix: Tensor, lanes: int = 1) -> Tensor:
    """Packs a matrix by torch."""
    rows, columns = matrix.shape
    padded = F.pad(matrix, (0, -columns % 16, 0, -rows % lanes))
    return padded.view(-1, lanes, padded.size(1) // 16, 16).permute(2, 0, 3, 1).contiguous()


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("has_bias", [False, True])
def test_packed_addmm(rows: int, has_bias: bool) -> None:
    x, weight, bias = torch.randn(rows, 5), torch.randn(5, 18), torch.randn(18) if has_bias else None
    call = resolve(PACKED_ADDMM).call()
    want = x @ weight + (0 if bias is None else bias)
    out = torch.empty(rows, 18)
    call(bias, x, _packed(weight).squeeze(-1), 18, out=out)
    assert_same(out, want)
    half = torch.empty(18, rows, dtype=torch.bfloat16).t()  # results may have any strides
    row = None if bias is None else bias.bfloat16()
    call(row, x.bfloat16(), _packed(weight.bfloat16(), 2), 18, out=half)
    assert_same(half.float(), want, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("has_scales", [False, True])
def test_packed_int8(has_scales: bool) -> None:
    """Products of floats are scaled; those of integers are exact."""
    weight = torch.randint(-128, 128, (6, 18), dtype=torch.int8)
    packed, call = _packed(weight, 4), resolve(PACKED_ADDMM_INT8).call()
    if has_scales:
        x, scales, bias = torch.randn(3, 6), torch.rand(18), torch.randn(18)
        out = torch.empty(3, 18)
        call(bias, x, packed, scales, 18, out=out)
        assert_same(out, bias + (x @ weight.float()) * scales)
    else:
        bytes = torch.randint(-128, 128, (3, 6), dtype=torch.int8)
        sums = torch.empty(3, 18, dtype=torch.int32)
        call(None, bytes, packed, None, 18, out=sums)
        assert torch.equal(sums, bytes.int() @ weight.int())


@pytest.mark.parametrize(("groups", "kernel"), [(1, (3,)), (2, (3, 2)), (6, (3, 3)), (1, (2, 1, 2))])
def test_packed_convolution(groups: int, kernel: tuple[int, ...]) -> None:
    """Also a depthwise one, of six groups."""
    x, weight = (
        torch.randn(2, 6, *(5 for _ in kernel)),
        torch.randn(18 if groups < 6 else 6, 6 // groups, *kernel),
    )
    outputs = weight.size(0)
    matrix = weight.movedim(1, -1).flatten(1)
    if groups == 6:
        packed = _packed(matrix.t()).squeeze(-1)
    else:
        packed = torch.stack([_packed(part.t()).squeeze(-1) for part in matrix.chunk(groups)])
    steps = ([2] * len(kernel), [1] * len(kernel), [1] * len(kernel))
    bias = torch.randn(outputs)
    want = torch.convolution(x, weight, bias, *steps, False, [0] * len(kernel), groups)
    out = torch.empty_like(want)
    call = resolve(PACKED_CONVOLUTION).call()
    call(x, packed, bias, kernel, outputs, *steps, groups, out=out)
    assert_same(out, want)
    scale, residual = torch.randn(outputs), torch.randn_like(want)
    channels = (-1, *(1 for _ in kernel))
    sums = (want - bias.view(channels)) * scale.view(channels) + bias.view(channels) + residual
    call(x, packed, bias, kernel, outputs, *steps, groups, scale, residual, "clamp", -0.5, 2.0, out=out)
    assert_same(out, sums.clamp(-0.5, 2.0))
    with pytest.raises(ValueError, match="no activation 'tanh'"):
        call(x, packed, bias, kernel, outputs, *steps, groups, None, None, "tanh", 0.0, 0.0, out=out)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention(heads: int) -> None:
    """With a mask, with a scale, causal, and with heads that share keys and values."""
    query, key, value = torch.randn(2, 4, 6, 16), torch.randn(2, heads, 8, 16), torch.randn(2, heads, 8, 16)
    call, mask = resolve(ATTENTION).call(), torch.randn(6, 8)
    for causal, bias, scale in ((False, mask, None), (False, None, 0.3), (True, None, None)):
        want = F.scaled_dot_product_attention(
            query, key, value, bias, is_causal=causal, scale=scale, enable_gqa=heads == 1
        )
        out = torch.empty(2, 6, 4, 16).transpose(1, 2)
        call(query, key, value, causal, bias, scale, out=out)
        assert_same(out, want)
