"""Statements about a model: its results, its gradients and its generated tokens equal stock's and eager's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from tools.conformance.models.zoo import ModelCase

BACKENDS = {"stock": "inductor", "ours": "wrapper_ir"}
_RTOL, _ATOL = 1e-3, 1e-4
"""Tolerance of float32 values under another order of additions."""

Run = Callable[[nn.Module, dict[str, Any]], list[Tensor]]


def _forward(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    with torch.no_grad():
        return list(tensors_of(model(**inputs)))


def _gradients(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """The loss, and the gradient of each parameter that has one."""
    model.zero_grad()
    output = model(**inputs)
    loss = output["loss"]
    loss.backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [loss.detach(), *(grad.clone() for grad in grads)]


def _generation(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """Generates eight tokens over a static cache, whose memory stays in place."""
    generate: Any = model.generate  # Any: transformers' models have it, `nn.Module` does not
    settings = {"max_new_tokens": 8, "do_sample": False, "cache_implementation": "static"}
    return [generate(inputs["input_ids"], **settings)]


STATEMENTS: Mapping[str, Run] = {"forward": _forward, "gradients": _gradients, "generation": _generation}


def check(case: ModelCase, statement: str, announce: Callable[[str], None]) -> dict[str, Any]:
    """Checks a statement in eager mode, with stock `torch.compile` and with ours.

    `announce` receives the side that fails if the process ends. Returns `error` (empty if ours is right),
    `exact` (every bit of ours is stock's) and `graphs` of both. Raises stock's exceptions: such a case does
    not count.
    """
    run = STATEMENTS[statement]
    announce("stock")
    expected = _run(run, case, None)[0]
    stock, stock_graphs = _run(run, case, BACKENDS["stock"])
    require_equal(stock, expected)
    announce("ours")
    try:
        ours, graphs = _run(run, case, BACKENDS["ours"])
        require_equal(ours, expected)
        require_equal(ours, stock)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "exact": False, "graphs": [stock_graphs, 0]}
    same = graphs == stock_graphs > 0
    difference = "" if same else f"ours compiled {graphs} graphs, stock {stock_graphs}"
    exact = all(torch.equal(a, b) for a, b in zip(ours, stock, strict=True))
    return {"error": difference, "exact": exact, "graphs": [stock_graphs, graphs]}


def _run(run: Run, case: ModelCase, backend: str | None) -> tuple[list[Tensor], int]:
    """The results, and how many graphs were compiled."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    model = case.make()
    torch.manual_seed(1)
    inputs = case.inputs()
    if backend is not None:
        model.forward = torch.compile(model.forward, backend=backend)  # as `generate` calls it
    torch.manual_seed(2)
    results = run(model, inputs)
    return [result.detach().clone() for result in results], counters["stats"]["unique_graphs"]


def tensors_of(output: object) -> Iterator[Tensor]:
    """Returns the tensors of a result, without caches, which are separate objects."""
    values = output.values() if isinstance(output, Mapping) else [output]
    for value in values:
        yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor))


def require_equal(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Raises AssertionError unless all tensors are equal within the tolerance."""
    assert len(actual) == len(expected), f"{len(actual)} results, {len(expected)} expected"
    for number, (a, b) in enumerate(zip(actual, expected)):
        try:
            torch.testing.assert_close(a, b, rtol=_RTOL, atol=_ATOL, equal_nan=True)
        except AssertionError as error:
            raise AssertionError(f"result {number}: {error}") from error
