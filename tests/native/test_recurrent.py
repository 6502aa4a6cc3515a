"""Recurrent layers of the native runtime, against eager in float64."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from inductor_frontend import capture
from tests.native.levels import LEVELS, flags_of
from tests.native.native_case import build_native
from tests.native.operator_library import NativeError, Operators, build_operators

_NAME = "aten::mkldnn_rnn_layer"
_TOLERANCES = {torch.float32: 5e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture(scope="module", params=LEVELS)
def operators(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Operators:
    folder = tmp_path_factory.mktemp(request.param)
    return build_operators(("recurrent",), str(folder), flags_of(request.param))


@dataclass(frozen=True)
class Layer:
    """A call of an LSTM of one layer and direction."""

    x: Tensor
    weights: tuple[Tensor, Tensor, Tensor, Tensor]
    hidden: Tensor
    cell: Tensor
    reverse: bool = False
    has_biases: bool = True

    def run(
        self,
        operators: Operators,
        mode: int = 2,
        batch_sizes: tuple[int, ...] = (),
        batch_first: bool = False,
    ) -> Any:
        size = self.hidden.size(-1)
        return operators.call(
            _NAME, self.x, *self.weights, self.hidden, self.cell, self.reverse, batch_sizes, mode, size, 1,
            self.has_biases, False, batch_first, False,
        )  # fmt: skip

    def expected(self) -> tuple[Tensor, Tensor, Tensor]:
        x, w, r, b, c = (t.double() for t in (self.x, *self.weights))
        hidden, cell = self.hidden.double().flatten(0, -2), self.cell.double().flatten(0, -2)
        states: list[Tensor] = []
        for step in reversed(x) if self.reverse else x:
            gates = step @ w.T + hidden @ r.T + (b + c if self.has_biases else 0)
            into, forget, new, out = gates.chunk(4, -1)
            cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
            states.append(hidden)
        if self.reverse:
            states.reverse()
        empty = x.new_empty(0, *hidden.shape)
        return torch.stack(states) if states else empty, hidden, cell


def random_layer(steps: int, batch: int, inputs: int, size: int, dtype: torch.dtype = torch.float32) -> Layer:
    numbers = [torch.randn(4 * size, n, dtype=torch.float64) / n**0.5 for n in (inputs, size)]
    biases = [torch.randn(4 * size, dtype=torch.float64) for _ in range(2)]
    weights = tuple(t.to(dtype) for t in (*numbers, *biases))
    hidden, cell = (torch.randn(batch, size, dtype=torch.float64).to(dtype) for _ in range(2))
    x = torch.randn(steps, batch, inputs, dtype=torch.float64).to(dtype)
    return Layer(x, weights, hidden, cell)


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    torch.manual_seed(draw(st.integers(0, 2**31)))
    steps, batch = draw(st.sampled_from([0, 1, 2, 3, 5, 20, 150])), draw(st.sampled_from([1, 2, 3, 5, 8, 16]))
    inputs, size = draw(st.sampled_from([1, 3, 8, 16, 40])), draw(st.sampled_from([1, 5, 16, 20, 33, 64]))
    layer = random_layer(steps, batch, inputs, size, draw(st.sampled_from(list(_TOLERANCES))))
    x, (w, r, b, c) = layer.x, layer.weights
    match draw(st.sampled_from(["plain", "batch first", "part", "spread", "transposed"])):
        case "batch first":
            layer = replace(layer, x=x.transpose(0, 1).contiguous().transpose(0, 1))
        case "part":
            layer = replace(layer, x=torch.cat([x, x], -1)[..., :inputs], hidden=layer.hidden[None])
        case "spread":
            layer = replace(layer, x=torch.stack([x, x], -1)[..., 0], cell=layer.cell.expand(1, -1, -1))
        case "transposed":
            spread = torch.stack([b, c], -1)
            weights = (w.t().contiguous().t(), torch.cat([r, r], 1)[:, :size], spread[:, 0], spread[:, 1])
            layer = replace(layer, weights=weights)
        case _:
            pass
    return replace(layer, reverse=draw(st.booleans()), has_biases=draw(st.booleans()))


def assert_equals_eager(operators: Operators, layer: Layer) -> None:
    *found, workspace = layer.run(operators)
    tolerance = _TOLERANCES[layer.x.dtype]
    assert [t.shape for t in found[1:]] == [layer.hidden.shape, layer.cell.shape]
    assert (workspace.shape, workspace.dtype) == ((0,), torch.uint8)
    for one, expected in zip(found, layer.expected()):
        assert one.dtype is layer.x.dtype
        assert one.is_contiguous()
        torch.testing.assert_close(
            one.double().reshape(expected.shape), expected, rtol=tolerance, atol=tolerance
        )


@pytest.mark.slow
@given(layer=layers())
def test_any_layer_equals_eager_in_double(operators: Operators, layer: Layer) -> None:
    assert_equals_eager(operators, layer)


def test_gates_of_long_sequences_are_computed_in_parts(operators: Operators) -> None:
    for reverse in (False, True):
        assert_equals_eager(operators, replace(random_layer(200, 16, 24, 64), reverse=reverse))


def test_results_equal_the_operator_of_torch(operators: Operators) -> None:
    layer = random_layer(7, 3, 10, 20)
    arguments: tuple[Any, ...] = (layer.hidden, layer.cell, False, [], 2, 20, 1, True, False, False, False)
    expected = torch.ops.aten.mkldnn_rnn_layer(layer.x, *layer.weights, *arguments)
    for one, wanted in zip(layer.run(operators)[:3], expected):
        assert one.stride() == wanted.stride()
        torch.testing.assert_close(one, wanted)


def test_large_gates_saturate(operators: Operators) -> None:
    layer = random_layer(3, 2, 4, 16)
    large = replace(layer, x=layer.x * 1e4)
    assert_equals_eager(operators, large)


@pytest.mark.parametrize("sizes", [(5, 40, 256, 256), (9, 1, 128, 128), (4, 2, 20, 100)])
def test_threads_do_not_change_results(operators: Operators, sizes: tuple[int, int, int, int]) -> None:
    """Threads divide products, or share the steps of small layers."""
    openmp = ctypes.CDLL("libgomp.so.1")
    layer, found = random_layer(*sizes), []
    before = openmp.omp_get_max_threads()
    try:
        for threads in (1, 2):
            openmp.omp_set_num_threads(threads)
            found.append(layer.run(operators)[0])
    finally:
        openmp.omp_set_num_threads(before)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": 3}, "not an LSTM"),
        ({"batch_sizes": (2, 1)}, "packed sequences are not supported"),
        ({"batch_first": True}, "`batch_first` is not supported"),
    ],
)
def test_other_modes_are_refused(operators: Operators, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NativeError, match=message):
        random_layer(3, 2, 4, 5).run(operators, **changes)


def test_other_shapes_and_types_are_refused(operators: Operators) -> None:
    layer = random_layer(3, 2, 4, 5)
    w, r, b, c = layer.weights
    wrong: dict[str, Layer] = {
        "the input is not": replace(layer, x=layer.x[0]),
        "`weight0` is not": replace(layer, weights=(w[:, :3], r, b, c)),
        "`weight1` is not": replace(layer, weights=(w, r.double(), b, c)),
        "a bias is not": replace(layer, weights=(w, r, b[:3], c)),
        "a state is not": replace(layer, cell=layer.cell[:1]),
    }
    for message, one in wrong.items():
        with pytest.raises(NativeError, match=message):
            one.run(operators)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_a_captured_model_runs_in_a_native_library(tmp_path: Any, options: dict[str, Any]) -> None:
    model = nn.LSTM(8, 20, **options).eval()
    x = torch.randn(4, 3, 8)
    library = build_native(capture(model, (x,)), tmp_path)
    with torch.no_grad():
        output, (hidden, cell) = model(x)
    torch.testing.assert_close(library([x], 3), [output, hidden, cell])
