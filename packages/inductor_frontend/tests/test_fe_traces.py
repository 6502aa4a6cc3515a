"""Models that need a different trace: through Dynamo, below autograd, or around tensors without a type in the
IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._C._functorch import get_dynamic_layer_stack_depth
from torch.export import Dim

from inductor_frontend import CaptureError, ConversionError, capture
from inductor_frontend.torch_patches._compat import REPORTS_SIDE_EFFECTS
from wrapper_ir.plugins.registry import emitter

Check = Callable[..., None]
Function = Callable[[Tensor], Any]  # Any: some give several tensors

# Any in this file: functions of torch.func and NumPy, which are untyped.


def _of_numpy(x: Tensor) -> Tensor:
    array = np.sin(x.numpy()) + 1
    return torch.from_numpy(array)


def _written_through_numpy(x: Tensor) -> Tensor:
    array: Any = x.numpy()
    array += 1
    return torch.from_numpy(array)


def _as_many_as_the_sum(x: Tensor) -> Tensor:
    return x.new_ones(int(x.abs().sum().item()))


def _times_an_item(x: Tensor) -> Tensor:
    return x * int(x[0, 0].item())


def _written_detached(x: Tensor) -> Tensor:
    x.data.add_(1)
    return x * 2


def _gradients(x: Tensor) -> Any:
    grad: Any = torch.func.grad
    gradient = grad(lambda a: a.sin().sum())
    return gradient(x), torch.vmap(gradient)(x)


def _derivatives(x: Tensor) -> Any:
    hessian: Any = torch.func.hessian
    jacobians = torch.func.jacrev(torch.sin)(x), hessian(lambda a: (a**3).sum())(x)
    return *jacobians, torch.func.jvp(torch.sin, (x,), (x,))[1]


_BY_DYNAMO: tuple[Function, ...] = (_of_numpy, _written_through_numpy, _as_many_as_the_sum, _times_an_item)
_BELOW_AUTOGRAD: tuple[Function, ...] = (_written_detached, _gradients, _derivatives)
_DYNAMO = pytest.mark.skipif(not REPORTS_SIDE_EFFECTS, reason="this torch drops side effects in silence")


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [pytest.param(f, marks=_DYNAMO) for f in _BY_DYNAMO] + [*_BELOW_AUTOGRAD]
)
def test_what_torch_compile_traces_is_captured(function: Function, equals_eager: Check) -> None:
    x = torch.rand(3, 3) + 1
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        stock: Any = torch.compile(function, fullgraph=True)(x.clone())
    torch.testing.assert_close(stock, function(x.clone()))
    equals_eager(capture(function, (x.clone(),)), function, x)


@pytest.mark.parametrize("function", [pytest.param(_of_numpy, marks=_DYNAMO), _gradients])
def test_sizes_stay_dynamic(function: Function, equals_eager: Check) -> None:
    artifact = capture(function, (torch.rand(3, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    for rows in (3, 7, 1):
        equals_eager(artifact, function, torch.rand(rows, 3))


@_DYNAMO
def test_state_and_signature_are_the_models(equals_eager: Check) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor, *, shift: int = 2) -> dict[str, Tensor]:
            count = self.get_buffer("count").add_(1)
            moved = torch.from_numpy(x.numpy() + shift)
            return {"y": self.linear(moved) + count, "x": x, "w": self.linear.weight}

    model, x = Model(), torch.rand(2, 3)
    count = model.get_buffer("count")
    artifact = capture(model, (x,))
    state = {name for c in artifact.program.constants for name in c.names}
    assert state == {"linear.weight", "linear.bias", "count"}
    compiled = emitter("python").compile(artifact)
    for _ in range(2):
        before = count.clone()
        results = compiled(x, shift=2)
        count.copy_(before)
        with torch.no_grad():
            expected = model(x)
        torch.testing.assert_close(results, expected)
        assert results["x"] is x


# --- what Dynamo would do after a call

_SEEN: list[object] = []


class _Counts(nn.Module):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return _of_numpy(x)


class _Keeps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x
        return _of_numpy(x)


class _Notes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        _SEEN.append(1)
        return _of_numpy(x)


class _Fills(nn.Module):
    def forward(self, x: Tensor, found: dict[str, Tensor]) -> Tensor:
        found["x"] = x
        return _of_numpy(x)


@pytest.mark.parametrize("model", [_Counts(), _Keeps(), _Notes(), _Fills()], ids=lambda m: type(m).__name__)
def test_changes_of_python_objects_are_refused(model: nn.Module) -> None:
    x = torch.rand(3)
    args = (x, {"y": x}) if isinstance(model, _Fills) else (x,)
    with pytest.raises(CaptureError, match=r"(?s)FE101.*numpy.*hint"):
        capture(model, args)


def test_a_failed_transform_is_left() -> None:
    """Otherwise every later trace would be inside the transform."""

    def function(x: Tensor) -> Tensor:
        def inner(a: Tensor) -> Tensor:
            return a.sin() if a > 0 else a.cos()

        result: Tensor = torch.vmap(torch.func.grad(inner))(x)
        return result

    with pytest.raises(CaptureError, match="FE101"):
        capture(function, (torch.rand(3),))
    assert get_dynamic_layer_stack_depth() == 0


# --- combinations


@pytest.mark.slow
@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("r", [0, 1, 2, 3])
def test_combinations(r: int, with_replacement: bool, equals_eager: Check) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        rows = torch.combinations(x[x > 0], r, with_replacement)
        return torch.combinations(x, r, with_replacement), rows

    fixed = capture(function, (torch.rand(5),))
    equals_eager(fixed, function, torch.tensor([1.0, -1, 2, 3, -4]))
    dynamic = capture(function, (torch.rand(5),), dynamic_shapes=({0: Dim.DYNAMIC},))
    for count in (5, 1, 2, 7):
        equals_eager(dynamic, function, torch.randn(count))


def test_combinations_that_torch_refuses() -> None:
    for x, r in ((torch.rand(2, 2), 2), (torch.rand(3), -1)):
        with pytest.raises(CaptureError, match=r"FE101.*combinations"):
            capture(lambda x, r=r: torch.combinations(x, r), (x,))


# --- sparse arguments


def _sparse() -> Iterator[Tensor]:
    dense = torch.eye(3)
    yield from (dense.to_sparse(), dense.to_sparse_csr())


def test_sparse_arguments_may_be_left_alone() -> None:
    def unused(s: Tensor, x: Tensor) -> Tensor:
        return x * 2

    def returned(s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return s, x + 1

    x = torch.rand(3)
    for sparse in _sparse():
        stock: Any = torch.compile(unused, fullgraph=True)(sparse, x)
        for name in ("python", "fx"):
            first, second = (
                emitter(name).compile(capture(function, (sparse, x))) for function in (unused, returned)
            )
            torch.testing.assert_close(first(sparse, x), stock)
            same, doubled = second(sparse, x)
            assert same is sparse
            torch.testing.assert_close(doubled, x + 1)


def test_sparse_arguments_are_refused_where_they_are_used() -> None:
    def matmul(x: Tensor, at: dict[str, Tensor]) -> Tensor:
        product: Tensor = torch.sparse.mm(at["s"], x)
        return product

    for sparse in _sparse():
        with pytest.raises(ConversionError, match=r"(?s)FE305.*argument args\[1\]\['s'\].*sparse.*hint"):
            capture(matmul, (torch.rand(3, 3), {"s": sparse}))
        with pytest.raises(ConversionError, match=r"FE305.*argument kwargs\['at'\]\['s'\].*sparse"):
            capture(matmul, (torch.rand(3, 3),), {"at": {"s": sparse}})


def test_sparse_constants_are_refused() -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(ConversionError, match=r"(?s)FE305.*constant lifted_tensor_0.*sparse_coo.*hint"):
        capture(lambda x: torch.sparse.mm(sparse, x), (torch.rand(3, 3),))
