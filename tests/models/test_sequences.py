"""Recurrent layers over packed sequences, and sparse gradients of embeddings: what torch.compile leaves to eager mode, or to
Inductor, and what a capture refuses by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import fx_converter
import py_wrapper
from inductor_frontend import capture
from inductor_frontend.errors import CaptureError, FallbackWarning

X, LENGTHS = torch.arange(45.0).reshape(3, 5, 3) / 45, torch.tensor([5, 2, 3])
LAYERS: list[tuple[Any, dict[str, Any]]] = [
    (nn.LSTM, {"proj_size": 2, "bias": False}),
    (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    (nn.GRU, {"bias": False}),
    (nn.RNN, {"bidirectional": True, "batch_first": True}),
]
layers = pytest.mark.parametrize(
    ("layer", "options"), LAYERS, ids=["projected", "both ways", "gated", "plain"]
)


class Packed(nn.Module):
    def __init__(self, layer: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.layer = layer(3, 4, **options)
        self.batch_first = self.layer.batch_first

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=False)
        padded: Tensor = pad_packed_sequence(self.layer(packed)[0], self.batch_first)[0]
        return padded


def _inputs(model: Packed) -> tuple[Tensor, Tensor]:
    return X if model.batch_first else X.transpose(0, 1), LENGTHS


def _same_training(model: nn.Module, compiled: Any, args: tuple[Tensor, ...]) -> None:
    wanted = model(*args)
    gradients = torch.autograd.grad(wanted.sum(), list(model.parameters()))
    found = compiled(*args)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), list(model.parameters())), gradients)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@layers
def test_packed_sequences_in_compiled_models(layer: Any, options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    model = Packed(layer, options)
    _same_training(model, torch.compile(model, backend="wrapper_ir"), _inputs(model))


@pytest.mark.filterwarnings("ignore")
def test_a_capture_of_packed_sequences_is_refused() -> None:
    model = Packed(nn.LSTM, {})
    with pytest.raises(CaptureError, match=r"FE101(.|\n)*torch.compile\(model, backend='wrapper_ir'\)"):
        capture(model, _inputs(model))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@layers
def test_padded_sequences(layer: Any, options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    model = layer(3, 4, **options).eval()
    wanted = model(X)[0].detach()
    artifact = capture(lambda x: model(x)[0], (X,))
    for emitter in (py_wrapper, fx_converter):
        with torch.no_grad():
            torch.testing.assert_close(emitter.compile(artifact)(X), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("bag", [False, True])
def test_sparse_gradients_of_embeddings(bag: bool) -> None:
    """The backward graph has a sparse value, for which programs have no type: Inductor compiles the function."""
    torch._dynamo.reset()
    table = (nn.EmbeddingBag if bag else nn.Embedding)(10, 4, sparse=True)
    tokens = torch.tensor([[1, 2], [1, 5]])

    def gradient(function: Any) -> Tensor:
        (found,) = torch.autograd.grad(function(tokens).square().sum(), [table.weight])
        assert found.layout is torch.sparse_coo
        return found.to_dense()

    compiled = torch.compile(table, backend="wrapper_ir", options={"on_unsupported": "inductor"})
    wanted = gradient(table)
    with pytest.warns(FallbackWarning, match="FE305"):
        torch.testing.assert_close(gradient(compiled), wanted)
    artifact = capture(table, (tokens,))
    for emitter in (py_wrapper, fx_converter):
        with torch.no_grad():
            torch.testing.assert_close(emitter.compile(artifact)(tokens), table(tokens))
