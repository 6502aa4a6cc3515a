"""The models of the benchmark: real architectures with random weights, or those of a package; float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.common.zoo import minilm as encoder
from tests.common.zoo import mlp
from tools.bench.models import small_gpt2

_CACHED = 64
"""Tokens in the cache of a decoder's step."""


@dataclass(frozen=True, slots=True)
class BenchModel:
    """A model that takes tensors and returns a tuple of float32 tensors, with its arguments."""

    module: nn.Module
    args: tuple[Tensor, ...]


class _Outputs(nn.Module):
    """A model of transformers, called with tensors by position; returns one tensor of its output."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], output: str, **options: object) -> None:
        super().__init__()
        self.model, self.names, self.output, self.options = model, names, output, options

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        found = self.model(**dict(zip(self.names, args, strict=True)), **self.options)
        return (found[self.output],)


class _Tuple(nn.Module):
    """A model whose one tensor is returned in a tuple."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Tensor) -> tuple[Tensor]:
        return (self.model(*args),)


class _Step(nn.Module):
    """One token of a decoder: `past` has keys and values of each layer; returns logits, and those of the token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for number, layer in enumerate(past.unbind()):
            cache.update(layer[0], layer[1], number)
        logits = self.model(token, past_key_values=cache, use_cache=True).logits
        new = [torch.stack((layer.keys[:, :, -1:], layer.values[:, :, -1:])) for layer in cache.layers]
        return logits, torch.stack(new)


class _Recurrent(nn.Module):
    """Two layers of an LSTM, and a linear layer for all steps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, width)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        out, _ = self.layers(x)
        return (self.head(out),)


def _ids(batch: int, length: int, vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (batch, length), generator=torch.Generator().manual_seed(length))


def _mlp() -> BenchModel:
    case = mlp(width=64, depth=8, batch=8)
    return BenchModel(_Tuple(case.model), case.args)


def _gpt() -> BenchModel:
    model = _Outputs(small_gpt2(), ("input_ids",), "logits", use_cache=False)
    return BenchModel(model, (_ids(1, 64, 1000),))


def _gpt2_small() -> Any:  # Any: transformers publishes no types
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0))


def _gpt2() -> BenchModel:
    model = _Outputs(_gpt2_small(), ("input_ids",), "logits", use_cache=False)
    return BenchModel(model, (_ids(1, 64, 50_257),))


def _gpt2_step() -> BenchModel:
    model = _gpt2_small()
    config = model.config
    past = torch.randn(config.n_layer, 2, 1, config.n_head, _CACHED, config.n_embd // config.n_head)
    return BenchModel(_Step(model), (_ids(1, 1, 50_257), past))


def _bert() -> BenchModel:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = BertModel(config, add_pooling_layer=False)
    return BenchModel(_Outputs(model, ("input_ids",), "last_hidden_state"), (_ids(1, 32, 1000),))


def _minilm(batch: int, length: int) -> BenchModel:
    ids = _ids(batch, length, 30_000)
    mask = torch.ones_like(ids)
    mask[-1, length - length // 4 :] = 0
    names = ("input_ids", "attention_mask")
    return BenchModel(_Outputs(encoder().model, names, "last_hidden_state"), (ids, mask))


def _images(model: nn.Module, size: int) -> BenchModel:
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.0)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
            assert layer.running_mean is not None
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
    return BenchModel(_Outputs(model, ("pixel_values",), "logits"), (torch.randn(1, 3, size, size),))


def _resnet18() -> BenchModel:
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic",
        num_labels=1000,
    )  # fmt: skip
    return _images(ResNetForImageClassification(config), 112)


def _mobilenet() -> BenchModel:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    torch.manual_seed(0)
    config = MobileNetV2Config(tf_padding=False, num_labels=1000)
    return _images(MobileNetV2ForImageClassification(config), 224)


def _convnext() -> BenchModel:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    torch.manual_seed(0)
    config = ConvNextConfig(image_size=112, num_labels=1000, layer_scale_init_value=1.0)
    return _images(ConvNextForImageClassification(config), 112)


def _lstm() -> BenchModel:
    torch.manual_seed(0)
    return BenchModel(_Recurrent(128), (torch.randn(1, 32, 128),))


@dataclass(frozen=True, slots=True)
class Entry:
    """A model's title in tables, and what makes it."""

    title: str
    make: Callable[[], BenchModel]


MODELS: Mapping[str, Entry] = {
    "mlp": Entry("MLP, 8 x linear 64, batch 8", _mlp),
    "gpt": Entry("GPT, 4 blocks of 256, 64 tokens", _gpt),
    "gpt2": Entry("GPT-2 small, 64 tokens", _gpt2),
    "gpt2_step": Entry(f"GPT-2 small, a token over {_CACHED}", _gpt2_step),
    "bert": Entry("BERT, 6 layers of 384, 32 tokens", _bert),
    "minilm": Entry("MiniLM, 1 x 16", partial(_minilm, 1, 16)),
    "minilm_batch": Entry("MiniLM, 8 x 128", partial(_minilm, 8, 128)),
    "resnet18": Entry("ResNet-18, 112 pixels", _resnet18),
    "mobilenet": Entry("MobileNetV2, 224 pixels", _mobilenet),
    "convnext": Entry("ConvNeXt-T, 112 pixels", _convnext),
    "lstm": Entry("LSTM, 2 layers of 128, 32 steps", _lstm),
}
