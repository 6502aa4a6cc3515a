"""Functions and modules that one process compiles ahead of time and stores, and another trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Any in this file: results of any function, and torch's own class.


def several(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns three results, one with gradients, and writes an input. Its sizes are symbols."""
    z.mul_(2)
    with torch.no_grad():
        scaled = x * 3 + torch.tensor([1.0, 2.0, 3.0])
    return (x @ y).relu().sum(0) * x.shape[0] + z.sum(), scaled, y > 0


class Norm(nn.Module):
    """A module with buffers, random numbers and a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.linear, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Returns one row for each image."""
        rows = self.norm(self.convolution(x)).relu().mean((2, 3))
        dropped: Tensor = checkpoint(self._drop, rows, use_reentrant=False)
        return dropped.sin()

    def _drop(self, rows: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(self.linear(rows))
        return dropped


class Tied(nn.Module):
    """A module that uses one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        """Returns a score for each token and successor."""
        scores: Tensor = self.head(self.embedding(x).tanh())
        return scores


NAMES = ("several", "norm", "tied")
_MODULES: Mapping[str, type[nn.Module]] = {"norm": Norm, "tied": Tied}


def arguments(name: str, count: int = 4) -> list[Tensor]:
    """Returns the arguments of a function, or of a module's `forward`."""
    torch.manual_seed(count)
    match name:
        case "several":
            leaf = torch.randn(count, 3, requires_grad=True)
            return [leaf, torch.randn(3, 8, requires_grad=True), torch.randn(8)]
        case "norm":
            return [torch.randn(4, 3, 8, 8, requires_grad=True)]
        case _:
            return [torch.arange(4)]


def module(name: str) -> nn.Module | None:
    """Returns a module with the same weights in each process; None for a function."""
    torch.manual_seed(0)
    return _MODULES[name]() if name in _MODULES else None


def compile_ahead(name: str, emitter: str) -> Any:
    """Compiles a function, or the `forward` of a module, which becomes its first argument."""
    torch._dynamo.reset()
    model = module(name)
    compiled: Any = torch.compile(
        model or several,
        backend="wrapper_ir",
        fullgraph=True,
        dynamic=True if model is None else None,
        options={"emitter": emitter, "fallback_random": True},
    )
    return (compiled if model is None else compiled.forward).aot_compile((tuple(arguments(name)), {}))


def trained(run: Callable[..., Any], inputs: Sequence[Tensor], model: nn.Module | None) -> list[object]:
    """Runs forward and backward; returns results, gradients, and the inputs and buffers after the call."""
    torch.manual_seed(1)
    results = run(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    loss: Any = sum((r * torch.arange(r.numel()).view(r.shape)).sum() for r in results if r.requires_grad)
    loss.backward()
    parameters = [] if model is None else [*model.parameters()]
    return [
        *(r.requires_grad for r in results),
        *(None if x.grad is None else x.grad.clone() for x in (*inputs, *parameters)),
        *(x.detach() for x in (*results, *inputs, *([] if model is None else model.buffers()))),
    ]


def check(name: str, function: Callable[..., Any]) -> None:
    """Compares a compiled function with eager mode, in two steps of training."""
    for count in (4, 6):  # sizes of a function are symbols
        expected = _steps(name, module(name), count, lambda model: model or several)
        model = module(name)
        actual = _steps(
            name, model, count, lambda m: function if m is None else lambda *args: function(m, *args)
        )
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def _steps(
    name: str, model: nn.Module | None, count: int, runs: Callable[[nn.Module | None], Callable[..., Any]]
) -> Iterator[list[object]]:
    for _ in range(2):
        yield trained(runs(model), arguments(name, count), model)


def check_stored(folder: str) -> None:
    """Loads and checks each stored function of a folder, and prints its name."""
    torch._dynamo.config.enable_aot_compile = True  # the default since torch 2.13
    for path in sorted(Path(folder).iterdir()):
        with path.open("rb") as file:
            check(path.stem, torch.compiler.load_compiled_function(file))
        print(path.stem)
