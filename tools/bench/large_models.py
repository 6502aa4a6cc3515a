"""Models for benchmarks of memory: some with large temporaries, and those whose calls need 4 MiB and more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.common.zoo import ZOO, Case, mlp
from tools.bench.models import small_gpt2


def _ids(batch: int, length: int) -> Tensor:
    return torch.randint(0, 1000, (batch, length), generator=torch.Generator().manual_seed(0))


def _gpt2(batch: int) -> Case:
    model = small_gpt2().eval()
    return Case(name="gpt2-256", model=model, args=(_ids(batch, 128),), kwargs={"use_cache": False})


def _bert(batch: int) -> Case:
    # Imported here because it takes seconds, which `--help` does not need.
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return Case(name="bert-256", model=BertModel(config).eval(), args=(_ids(batch, 128),))


def _convnext() -> Case:
    # Imported here: it takes seconds, and `--help` does not want it.
    from transformers import ConvNextConfig, ConvNextModel

    torch.manual_seed(0)
    config = ConvNextConfig(image_size=64, hidden_sizes=[16, 32, 64, 64], depths=[2, 2, 2, 2])
    return Case(name="convnext", model=ConvNextModel(config).eval(), args=(torch.randn(2, 3, 64, 64),))


def _transformer(batch: int, length: int) -> Case:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    # Nested tensors are for masks, and the path without gradients is one operator.
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()
    return Case(name="transformer", model=model, args=(torch.randn(batch, length, 64),))


class _Recurrent(torch.nn.Module):
    """Two layers of an LSTM, and a linear layer for the last step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.layers(x)
        return torch.relu(self.head(out[:, -1]))


def _recurrent(batch: int, length: int) -> Case:
    torch.manual_seed(0)
    return Case(name="lstm of 2 layers", model=_Recurrent(64).eval(), args=(torch.randn(batch, length, 64),))


def _repeated(name: str, times: int) -> Case:
    """A model of the zoo with so many times its batch."""

    def repeat(x: Tensor) -> Tensor:
        return x.repeat(times, *[1] * (x.ndim - 1))

    case = ZOO[name]()
    args, kwargs = pytree.tree_map_only(Tensor, repeat, (case.args, dict(case.kwargs or {})))
    return dataclasses.replace(case, args=args, kwargs=kwargs)


LARGE: Mapping[str, Callable[[], Case]] = {
    "convnext": _convnext,
    "transformer": partial(_transformer, 8, 64),
    "lstm of 2 layers": partial(_recurrent, 16, 32),
    "gpt2-256": partial(_gpt2, 8),
    "gpt2-256, batch 64": partial(_gpt2, 64),
    "bert-256, batch 40": partial(_bert, 40),
    "mlp, 17,000 rows of 512": partial(mlp, 512, 4, 17_000),
    "t5 x 512": partial(_repeated, "t5", 512),
    "vit x 128": partial(_repeated, "vit", 128),
    "resnet x 1,100": partial(_repeated, "resnet", 1_100),
    "convnet x 2,048": partial(_repeated, "convnet", 2_048),
    "lstm x 2,048": partial(_repeated, "lstm", 2_048),
    "moe x 256": partial(_repeated, "moe", 256),
    "minilm x 32": partial(_repeated, "minilm", 32),
}
"""Models by name; `x 512` is 512 times the batch of the small model of that name."""

TRAINED: Mapping[str, Callable[[], Case]] = {
    "gpt2-256": partial(_gpt2, 8),
    "bert-256, batch 8": partial(_bert, 8),
    "mlp, 4,096 rows of 512": partial(mlp, 512, 4, 4_096),
    "vit x 128": partial(_repeated, "vit", 128),
    "resnet x 256": partial(_repeated, "resnet", 256),
    "convnet x 512": partial(_repeated, "convnet", 512),
    "moe x 256": partial(_repeated, "moe", 256),
}
"""Models whose training steps are measured."""
