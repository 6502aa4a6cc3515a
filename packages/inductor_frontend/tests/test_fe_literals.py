"""Literal tensors of a model: callers own their results, and operators accept them as in torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.utils import _pytree as pytree

import cpp_wrapper
import fx_converter
import inductor_frontend
import py_wrapper
from wrapper_ir.plugins.protocols import Emitter

EMITTERS: dict[str, Emitter[Any]] = {
    "python": py_wrapper.EMITTER,
    "fx": fx_converter.EMITTER,
    "cpp": cpp_wrapper.EMITTER,
}

# Any in this file: results of any nesting.
Model = Callable[[Tensor], Any]
TABLE = torch.ones(2, 2)


def _views(x: Tensor) -> Any:
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x + 1, t[0], {"all": [t, t]}, t.t()


def _set_last(x: Tensor) -> Any:
    y = x.clone()
    y[-1] = 9
    return y


def _write(x: Tensor) -> Any:
    t = torch.tensor([1.0, 2.0, 3.0])
    t.add_(x)
    t[0] = 7
    return t


def _loop(x: Tensor) -> Any:
    return while_loop(  # type: ignore[no-untyped-call]  # torch has no types for it
        lambda i, y: i < 3, lambda i, y: (i + 1, y + 1), (torch.tensor(0), x)
    )


def _branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: torch.tensor([1.0, 2.0, 3.0]), lambda x: x * 2, (x,))


@torch.compiler.nested_compile_region
def _region(x: Tensor) -> Any:
    return torch.tensor([1.0, 2.0, 3.0]), x + 1


def _regions(x: Tensor) -> Any:
    return _region(x), _region(x * 2)[0]


RETURNED: dict[str, Model] = {
    "number": lambda x: (x + 1, torch.tensor(0.0)),
    "matrix": lambda x: (x + 1, torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "integers": lambda x: (x + 1, torch.tensor(3), torch.tensor([[1, 2], [3, 4]])),
    "complex": lambda x: (x + 1, torch.tensor(1j), torch.tensor([[1j, 2.0]])),
    "views": _views,
    "unchanged": lambda x: (x + 1, torch.nn.functional.pad(TABLE, (0, 0))),
    "copies": lambda x: (TABLE.clone(), TABLE.clone()),
    "branch": lambda x: (x + 1, _branch(x)),
    "regions": _regions,
}
USED: dict[str, Model] = {
    "set_last": _set_last,
    "write": _write,
    "index_put": lambda x: x.index_put((torch.tensor(1),), torch.tensor(5.0)),
    "repeat": lambda x: x[0] + torch.tensor(2.0).repeat(4),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0, 2]), torch.tensor(5.0)),
    "masked_fill": lambda x: x.masked_fill(torch.tensor([True, False, True]), torch.tensor(2.0)),
    "where": lambda x: torch.where(torch.tensor(True), x, torch.tensor(1)),
    "while_loop": _loop,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RETURNED)
def test_a_returned_literal_belongs_to_the_caller(name: str) -> None:
    model, x = RETURNED[name], torch.ones(3)
    artifact = inductor_frontend.capture(model, (x,))
    for emitter in EMITTERS.values():
        call = emitter.compile(artifact)
        for _ in range(2):
            got = call(x)
            torch.testing.assert_close(got, model(x))
            first = pytree.tree_leaves(got)[-1]
            first.add_(100)
            want = model(x)
            pytree.tree_leaves(want)[-1].add_(100)
            torch.testing.assert_close(got, want)  # views of it follow, copies do not


@pytest.mark.slow
@pytest.mark.parametrize("name", USED)
def test_operators_take_literals(name: str) -> None:
    model, x = USED[name], torch.ones(3)
    artifact = inductor_frontend.capture(model, (x,))
    for emitter in EMITTERS.values():
        call = emitter.compile(artifact)
        for _ in range(2):
            torch.testing.assert_close(call(x), model(x))


@pytest.mark.slow
def test_flex_attention_captures_a_small_tensor() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    scale = torch.tensor([0.5, 2.0])

    def attend(q: Tensor) -> Any:
        return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s * scale[h])

    x = torch.randn(1, 2, 16, 16)
    artifact = inductor_frontend.capture(attend, (x,))
    torch.testing.assert_close(py_wrapper.compile(artifact)(x), attend(x), rtol=1e-4, atol=1e-5)


class Returns(torch.nn.Module):
    """A model that returns its own weight, and a view of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x: Tensor) -> Any:
        return x + self.weight, self.weight, self.get_buffer("state")[1:]


def test_weights_that_a_model_returns_stay_its_own() -> None:
    call = py_wrapper.compile(inductor_frontend.capture(Returns(), (torch.ones(3),)))
    with torch.no_grad():
        call(torch.ones(3))[1].add_(1)
        torch.testing.assert_close(call(torch.ones(3))[0], torch.full((3,), 3.0))


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cls", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_without_bias(cls: Any, bidirectional: bool, layers: int) -> None:
    model = cls(4, 5, bias=False, num_layers=layers, bidirectional=bidirectional)
    x = torch.randn(3, 2, 4)
    artifact = inductor_frontend.capture(model, (x,))
    want = model(x)
    for emitter in (py_wrapper.EMITTER, fx_converter.EMITTER):
        torch.testing.assert_close(emitter.compile(artifact)(x), want, rtol=1e-4, atol=1e-5)
