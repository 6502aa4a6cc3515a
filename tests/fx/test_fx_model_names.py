"""Graph modules have the model's names for their state, in each form, from a file and in a copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import fx_converter
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from inductor_frontend import capture
from wrapper_ir.artifact import Artifact


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.h(x))  # type: ignore[no-any-return]  # modules return anything


class Model(nn.Module):
    """Nested and numbered modules, tied names, reserved names of graph modules, buffers that are not saved, a
    tensor without a name, an unused tensor, and a branch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 4)
        first = self.blocks[0]
        assert isinstance(first, Block)
        self.head.weight = first.h.weight
        self.meta = nn.Linear(4, 4)
        self.graph = nn.Linear(4, 4, bias=False)
        self.register_buffer("scale", torch.arange(4.0))
        self.register_buffer("shift", torch.ones(4), persistent=False)
        self.register_buffer("idle", torch.ones(2))
        self.offsets = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: Tensor) -> Tensor:
        y = self.graph(self.meta(self.head(self.blocks(x)))) * self.scale + self.shift + self.offsets
        return torch.cond(y.sum() > 0, lambda y: y * self.scale + 1, lambda y: y - self.head.bias, (y,))  # type: ignore[no-any-return]


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def captured() -> tuple[Model, Artifact]:
    model = Model().eval()
    with torch.no_grad():
        return model, capture(model, (X,))


Way = Callable[[fx.GraphModule, Path], fx.GraphModule]


def from_file(module: fx.GraphModule, folder: Path) -> fx.GraphModule:
    fx_converter.save(module, folder / "graph.wir")
    return fx_converter.load(folder / "graph.wir")


WAYS: dict[str, Way] = {
    "file": from_file,
    "copy": lambda module, folder: copy.deepcopy(module),
    "copy of a file": lambda module, folder: copy.deepcopy(from_file(module, folder)),
    "file of a copy": lambda module, folder: from_file(copy.deepcopy(module), folder),
    "module": lambda module, folder: module,
}


def _other() -> Model:
    model = Model().eval()
    state: dict[str, Any] = model.state_dict()
    for held in state.values():
        if held.is_floating_point():
            held.copy_(torch.rand_like(held))
    return model


@pytest.mark.parametrize("form", ["direct", "hop"])
@pytest.mark.parametrize("way", WAYS)
def test_a_state_of_the_model_is_loaded(
    captured: tuple[Model, Artifact], way: str, form: KernelCalls, tmp_path: Path
) -> None:
    model, artifact = captured
    before = {name: held.clone() for name, held in model.state_dict().items()}
    module = WAYS[way](fx_converter.convert(artifact, FxOptions(kernel_calls=form)), tmp_path)
    other = _other()
    try:
        module.load_state_dict(other.state_dict(), strict=True)
        with torch.no_grad():
            torch.testing.assert_close(module(X), other(X))
        for name, held in module.state_dict().items():
            assert torch.equal(held, other.state_dict()[name]), name
        missing = other.state_dict().keys() - module.state_dict().keys()
        assert missing == {"idle", *(f"blocks.{n}.norm.num_batches_tracked" for n in (0, 1))}
        assert module.get_buffer("blocks.1.h.bias") is dict(module.named_buffers())["blocks.1.h.bias"]
        assert module.get_buffer("head.weight") is module.get_buffer("blocks.0.h.weight")
        with pytest.raises(RuntimeError, match=r'Unexpected key.*"other"'):
            module.load_state_dict({**other.state_dict(), "other": X})
        with pytest.raises(RuntimeError, match=r'Missing key.*"scale"'):
            module.load_state_dict({n: v for n, v in other.state_dict().items() if n != "scale"})
    finally:
        model.load_state_dict(before)


@pytest.mark.parametrize("form", ["direct", "hop"])
def test_a_replaced_module_is_seen(captured: tuple[Model, Artifact], form: KernelCalls) -> None:
    model, artifact = captured
    module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.head.bias.fill_(3.0)
        module.get_submodule("head").bias = nn.Parameter(torch.full((4,), 3.0))
        want = other.graph(other.meta(other.head(other.blocks(X))))
        assert not torch.equal(want, model.graph(model.meta(model.head(model.blocks(X)))))
        assert not torch.equal(module(X), model(X))
