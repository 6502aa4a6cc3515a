"""Convolutions of the native runtime, against eager torch."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_frontend import CaptureOptions, capture
from tests.native.native_case import build_native
from tests.native.operator_library import NativeError, Operators, build_operators
from wrapper_ir.artifact import Artifact
from wrapper_ir.operators.native import ACTIVATIONS, FUSED_CONVOLUTION
from wrapper_ir_passes.pipeline import run_on_artifact
from wrapper_ir_torch import resolve

pytestmark = pytest.mark.slow  # compiles the operators for each instruction set
_LEVELS = {
    "DEFAULT": (),
    "AVX2": ("-mavx2", "-mfma", "-mf16c"),
    "AVX512": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c"),
}
_TOLERANCES = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 2e-2, torch.float16: 3e-3}
_DTYPES = st.sampled_from([*[torch.float32] * 6, torch.float64, torch.bfloat16, torch.float16, torch.int64])
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
_CHANNELS = [1, 2, 3, 5, 16, 17, 33]


def _levels() -> list[str]:
    names = list(_LEVELS)
    return names[: names.index(torch.backends.cpu.get_cpu_capability()) + 1]


@lru_cache
def _library(level: str) -> Operators:
    with tempfile.TemporaryDirectory() as folder:  # a loaded library needs no file
        options = (*_LEVELS[level], "-fopenmp")
        return build_operators(("convolutions", "convolution_gradients"), folder, options)


_PARAMETERS = [
    level if level in (_levels()[0], _levels()[-1]) else pytest.param(level, marks=pytest.mark.conformance)
    for level in _levels()
]
"""The lowest and the highest level are tested first; those between them take long."""


@pytest.fixture(params=_PARAMETERS, scope="module")
def native(request: pytest.FixtureRequest) -> Operators:
    """The operators for an instruction set."""
    return _library(request.param)


@dataclass(frozen=True)
class Case:
    """Arguments of `aten::convolution`."""

    input: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    transposed: bool
    output_padding: list[int]
    groups: int

    @property
    def arguments(self) -> tuple[object, ...]:
        """All but the tensors."""
        steps = (self.stride, self.padding, self.dilation)
        return (*steps, self.transposed, self.output_padding, self.groups)

    @property
    def exact(self) -> Tensor:
        """The result of the same numbers in float64, or in their type if they are integers."""
        wide = torch.float64 if self.input.is_floating_point() else self.input.dtype
        bias = None if self.bias is None else self.bias.to(wide)
        return convolved(self.input.to(wide), self.weight.to(wide), bias, *self.arguments)


def convolved(*args: object) -> Tensor:
    """Calls eager torch."""
    result: Tensor = torch.ops.aten.convolution(*args)
    return result


@st.composite
def layouts(draw: st.DrawFn, sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor that is contiguous, channels-last, or with gaps."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    if dtype.is_floating_point:
        made = torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)
    else:
        made = torch.randint(-9, 9, sizes, generator=generator).to(dtype)
    layout = draw(st.sampled_from(["contiguous", "last", "last", "gaps"]))
    if layout == "last" and len(sizes) in _FORMATS:
        return made.contiguous(memory_format=_FORMATS[len(sizes)])
    if layout == "last" and len(sizes) > 2:
        return made.transpose(1, 2).contiguous().transpose(1, 2)
    return torch.cat((made, made), -1)[..., : sizes[-1]] if layout == "gaps" else made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Convolutions of all kinds: dense, grouped, depthwise, strided, dilated, transposed."""
    rank, dtype = draw(st.sampled_from([1, 2, 2, 2, 3])), draw(_DTYPES)

    def numbers(*values: int) -> list[int]:
        return [draw(st.sampled_from(values)) for _ in range(rank)]

    kernel, padding = numbers(1, 2, 3, 3, 5, 7) if rank < 3 else numbers(1, 2, 3), numbers(0, 1, 2, 3)
    stride, dilation, transposed = numbers(1, 1, 2, 3), numbers(1, 1, 2), draw(st.booleans())
    output_padding = [draw(st.integers(0, max(s, d) - 1)) * transposed for s, d in zip(stride, dilation)]
    kind = draw(st.sampled_from(["dense", "groups", "depthwise", "square"]))
    groups = draw(
        st.sampled_from({"dense": [1], "square": [1], "groups": [2, 3], "depthwise": [3, 17, 40]}[kind])
    )
    inner, outer = (1, 1) if kind == "depthwise" else (draw(st.sampled_from(_CHANNELS)) for _ in range(2))
    spatial = numbers(1, 2, 5, 8, 14) if rank < 3 else numbers(1, 3, 6)
    if kind == "square":  # Winograd's
        kernel, stride, dilation, inner, outer = [3] * rank, [1] * rank, [1] * rank, 33, 40
        output_padding = [0] * rank
    sizes = (draw(st.sampled_from([1, 1, 2])), groups * inner, *spatial)
    weight = (groups * inner, outer, *kernel) if transposed else (groups * outer, inner, *kernel)
    bias = draw(layouts((groups * outer, 1), dtype))[:, 0] if draw(st.booleans()) else None
    tensors = draw(layouts(sizes, dtype)), draw(layouts(weight, dtype))
    return Case(*tensors, bias, stride, padding, dilation, transposed, output_padding, groups)


def check(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    tolerance = _TOLERANCES.get(dtype, 0)
    torch.testing.assert_close(got.to(want.dtype), want, rtol=tolerance, atol=tolerance * 6)


def packed(weight: Tensor, groups: int) -> Tensor:
    """The weights of each group as a matrix, in panels of 16 columns."""
    rows = weight.flatten(2).movedim(2, 1)
    is_depthwise = groups > 1 and weight.size(0) == groups and weight.size(1) == 1
    matrices = rows.reshape(1 if is_depthwise else groups, -1, rows[0].numel()).transpose(1, 2)
    full = nn.functional.pad(matrices, (0, -matrices.size(2) % 16))
    return torch.stack(torch.split(full, 16, 2), 1)


@given(case=cases())
def test_convolution(native: Operators, case: Case) -> None:
    tensors = (case.input, case.weight, case.bias)
    try:
        want = case.exact
    except RuntimeError:  # for instance a kernel that is larger than the padded input
        return
    got = native.call("aten::convolution", *tensors, *case.arguments)
    check(got, want, case.input.dtype)
    again = native.call("aten::_convolution", *tensors, *case.arguments, False, False, True, True)
    assert torch.equal(again, got)
    assert again.stride() == got.stride()
    out = torch.empty_like(got.movedim(1, -1)).movedim(-1, 1)
    native.call("aten::convolution.out", *tensors, *case.arguments, out=out)
    check(out, want, case.input.dtype)
    if not case.transposed and case.input.dtype in (torch.float32, torch.bfloat16):
        weight, out = packed(case.weight.float(), case.groups), torch.empty_like(got)
        sizes = (list(case.weight.shape[2:]), case.weight.size(0))
        rest = (case.stride, case.padding, case.dilation, case.groups)
        bias = case.bias
        native.call("wrapper_ir::packed_convolution.out", case.input, weight, bias, *sizes, *rest, out=out)
        check(out, want, case.input.dtype)


@st.composite
def epilogues(draw: st.DrawFn) -> tuple[bool, bool, str, float, float]:
    """Whether there is a scale, and a residual; the activation with its bounds."""
    activation = draw(st.sampled_from(ACTIVATIONS))
    return draw(st.booleans()), draw(st.booleans()), activation, -0.5, 0.75


@given(case=cases(), epilogue=epilogues(), data=st.data())
def test_epilogue(
    native: Operators, case: Case, epilogue: tuple[bool, bool, str, float, float], data: st.DataObject
) -> None:
    """Against the same operator of torch in float64; the residual has any layout."""
    dtype, weight = case.input.dtype, case.weight
    if case.transposed or dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return
    try:
        sizes = tuple(case.exact.shape)
    except RuntimeError:
        return
    has_scale, has_residual, *rest = epilogue
    scale = torch.randn(weight.size(0)).to(dtype) if has_scale else None
    residual = data.draw(layouts(sizes, dtype)) if has_residual else None
    steps = (case.stride, case.padding, case.dilation, case.groups)
    tensors = (case.input, weight, case.bias)
    wide = [None if t is None else t.double() for t in (*tensors, scale, residual)]
    want: Any = resolve(FUSED_CONVOLUTION).call()(*wide[:3], *steps, *wide[3:], *rest)
    got = native.call(FUSED_CONVOLUTION.name, *tensors, *steps, scale, residual, *rest)
    check(got, want, dtype)
    out, kernel = torch.empty_like(got), (list(weight.shape[2:]), weight.size(0))
    arguments = (case.input, packed(weight.float(), case.groups), case.bias, *kernel, *steps)
    native.call("wrapper_ir::packed_convolution.out", *arguments, scale, residual, *rest, out=out)
    check(out, want, dtype)


@pytest.mark.parametrize("layer", ["direct", "depthwise", "winograd"])
def test_not_a_number_passes_a_clamp(native: Operators, layer: str) -> None:
    groups = 32 if layer == "depthwise" else 1
    x, weight = torch.randn(1, 32, 9, 9), torch.randn(32, 32 // groups, 3, 3)
    x[0, :, 4, 4] = torch.nan
    steps = ([2, 2] if layer == "direct" else [1, 1], [1, 1], [1, 1], groups)
    want = torch.convolution(x, weight, None, *steps[:3], False, [0, 0], groups).relu()
    got = native.call(FUSED_CONVOLUTION.name, x, weight, None, *steps, None, None, "relu", 0.0, 0.0)
    assert want.isnan().any()
    assert bool((want.isnan() <= got.isnan()).all())


@given(case=cases())
def test_strides_are_those_of_the_fake_operator(native: Operators, case: Case) -> None:
    if case.input.dtype not in (torch.float32, torch.bfloat16):
        return
    tensors = (case.input, case.weight, case.bias)
    with FakeTensorMode() as mode:
        fakes = [None if t is None else mode.from_tensor(t) for t in tensors]
        try:
            want = convolved(*fakes, *case.arguments)
        except RuntimeError:
            return
    if want.numel() == 0:  # eager mode refuses it, too
        return
    if torch.get_num_threads() == 1 or case.input.dim() < 5:  # torch's choice in three dimensions
        got = native.call("aten::convolution", *tensors, *case.arguments)
        assert got.stride() == want.stride()


@given(case=cases(), mask=st.lists(st.booleans(), min_size=3, max_size=3))
def test_gradients(native: Operators, case: Case, mask: list[bool]) -> None:
    dtype = case.input.dtype
    if not dtype.is_floating_point:
        return
    try:
        result = case.exact
    except RuntimeError:
        return
    gradient = torch.randn_like(result).to(dtype)
    tensors = (gradient, case.input, case.weight)
    rest = ([result.size(1)], *case.arguments, mask)
    want = torch.ops.aten.convolution_backward(*(t.double() for t in tensors), *rest)
    got = native.call("aten::convolution_backward", *tensors, *rest)
    for one, other, is_wanted in zip(got, want, mask, strict=True):
        assert (one is not None) == is_wanted
        if is_wanted:
            tolerance = _TOLERANCES[dtype] * 10
            torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("sizes", [(0, 3, 5, 5), (2, 0, 5, 5)])
def test_empty(native: Operators, sizes: tuple[int, ...]) -> None:
    x, weight = torch.empty(sizes), torch.empty(4, sizes[1], 3, 3)
    got = native.call("aten::convolution", x, weight, None, [1], [1], [1], False, [0], 1)
    assert got.shape == (sizes[0], 4 if sizes[1] else 0, 5, 5)


X, W = torch.randn(1, 4, 6, 6), torch.randn(8, 4, 3, 3)


@pytest.mark.parametrize(
    ("text", "tensors", "arguments"),
    [
        ("element type", (X, W.double(), None), ([1], [0], [1], False, [0], 1)),
        ("element type", (X, W, torch.randn(8).double()), ([1], [0], [1], False, [0], 1)),
        ("one number for each output channel", (X, W, torch.randn(4)), ([1], [0], [1], False, [0], 1)),
        ("number of dimensions", (X[0], W, None), ([1], [0], [1], False, [0], 1)),
        ("only 1, 2 and 3", (X[0, 0], W[0, 0], None), ([1], [0], [1], False, [0], 1)),
        ("input channels", (X, W, None), ([1], [0], [1], False, [0], 2)),
        ("groups must be positive", (X, W, None), ([1], [0], [1], False, [0], 0)),
        ("multiple of the number of groups", (X, W[:7, :2], None), ([1], [0], [1], False, [0], 2)),
        ("strides must be positive", (X, W, None), ([0], [0], [1], False, [0], 1)),
        ("padding must not be negative", (X, W, None), ([1], [-1], [1], False, [0], 1)),
        ("dilations must be positive", (X, W, None), ([1], [0], [0], False, [0], 1)),
        ("one value", (X, W, None), ([1, 1, 1], [0], [1], False, [0], 1)),
        ("larger than the padded input", (X, W, None), ([1], [0], [4], False, [0], 1)),
        ("smaller than the stride", (X, W.transpose(0, 1), None), ([2], [0], [1], True, [2], 1)),
        ("would be empty", (X, W.transpose(0, 1), None), ([1], [9], [1], True, [0], 1)),
        ("no code for element type", (X > 0, W > 0, None), ([1], [0], [1], False, [0], 1)),
    ],
)
def test_refused(
    native: Operators, text: str, tensors: tuple[object, ...], arguments: tuple[object, ...]
) -> None:
    with pytest.raises(NativeError, match=f"aten::convolution failed: .*{text}"):
        native.call("aten::convolution", *tensors, *arguments)


def test_packed_weights_of_another_size(native: Operators) -> None:
    with pytest.raises(NativeError, match=r"packed_convolution\.out failed: the packed weight"):
        native.call(
            "wrapper_ir::packed_convolution.out", X, torch.zeros(7), None, [3, 3], 8, [1], [0], [1], 1,
            out=torch.empty(1, 8, 4, 4),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "scale", "residual", "activation"),
    [
        ("the scale needs one number", torch.ones(4), None, "none"),
        ("the residual needs the sizes", None, torch.ones(1, 8, 4, 5), "none"),
        ("the residual needs the sizes", None, torch.ones(8, 4, 4), "none"),
        ("same element type", torch.ones(8).double(), None, "none"),
        ("the activation is not one of", None, None, "tanh"),
    ],
)
def test_refused_epilogues(
    native: Operators, text: str, scale: Tensor | None, residual: Tensor | None, activation: str
) -> None:
    end = (scale, residual, activation, 0.0, 0.0)
    with pytest.raises(NativeError, match=f"{FUSED_CONVOLUTION.name} failed: .*{text}"):
        native.call(FUSED_CONVOLUTION.name, X, W, None, [1], [0], [1], 1, *end)
    with pytest.raises(NativeError, match="no code for element type"):
        native.call(FUSED_CONVOLUTION.name, X.double(), W.double(), None, [1], [0], [1], 1)


class Network(nn.Module):
    """A strided first layer, a residual square, a depthwise and a pointwise layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 40, 7, 2, 3, bias=False)
        self.norm = nn.BatchNorm2d(40)
        self.square = nn.Conv2d(40, 40, 3, padding=1)
        self.depthwise = nn.Conv2d(40, 40, 5, padding=2, groups=40)
        self.last = nn.Conv2d(40, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Returns a number for each channel."""
        y = torch.relu(self.norm(self.first(x)))
        y = torch.relu(y + self.square(y))
        result: Tensor = self.last(self.depthwise(y))
        return result


@pytest.fixture(scope="module", params=[False, True])
def network(request: pytest.FixtureRequest) -> Artifact:
    rows, options = torch.export.Dim("rows", min=1, max=8), CaptureOptions(fused_convolutions=request.param)
    args = (torch.randn(2, 3, 40, 40),)
    return capture(Network().eval(), args, dynamic_shapes=({0: rows},), options=options)


@pytest.mark.parametrize("passes", ["", "pack-constants"])
def test_network(network: Artifact, passes: str, tmp_path: Path) -> None:
    artifact = run_on_artifact(network, passes) if passes else network
    run, x = build_native(artifact, tmp_path), torch.randn(3, 3, 40, 40)
    with torch.no_grad():
        torch.testing.assert_close(run([x])[0], Network().eval()(x), rtol=1e-4, atol=1e-5)
