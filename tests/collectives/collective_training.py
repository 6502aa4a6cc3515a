"""Training steps of several processes, through eager, stock torch.compile and our backend.

Each is called with the rank, and raises AssertionError where ways differ: from each other, or from the same
step computed by one process with all the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from tests.collectives.collective_cases import WORLD
from tests.common.compare import assert_same
from tests.common.parallel_models import Sum, SumGradients

# Any in this file: compiled callables of any signature; untyped parts of torch.
funcol: Any = _functional_collectives
BACKENDS = ("wrapper_ir", "inductor")


def _weights() -> tuple[Tensor, Tensor, Tensor]:
    """Input, first and second layer: the same on every process."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((4, 4), (8, 4), (4, 8))
    x, first, second = (torch.randn(shape, generator=generator) for shape in shapes)
    return x, first, second


def tensor_parallel(rank: int) -> None:
    """A layer split by columns and one split by rows: a sum forward, and one backward."""
    x, first, second = _weights()
    copied: Any = SumGradients.apply
    summed: Any = Sum.apply

    def loss(x: Tensor, first: Tensor, second: Tensor) -> Any:
        hidden = torch.relu(copied(x) @ first.t())
        return summed(hidden @ second.t()).square().sum()

    def step(run: Any) -> list[Tensor]:
        part = slice(rank * 4, rank * 4 + 4)
        leaves = [t.clone().requires_grad_() for t in (x, first[part], second[:, part])]
        value = run(*leaves)
        value.backward()
        return [value.detach(), *(t.grad for t in leaves if t.grad is not None)]

    whole = [t.clone().requires_grad_() for t in (x, first, second)]
    value: Any = (torch.relu(whole[0] @ whole[1].t()) @ whole[2].t()).square().sum()
    value.backward()
    grads = [t.grad for t in whole]
    assert grads[1] is not None
    assert grads[2] is not None
    part = slice(rank * 4, rank * 4 + 4)
    want = [value.detach(), grads[0], grads[1][part], grads[2][:, part]]
    assert_same(step(loss), want)
    for backend in BACKENDS:
        assert_same(step(torch.compile(loss, backend=backend, fullgraph=True)), want)


def sequence_parallel(rank: int) -> None:
    """Collectives with gradients: each gradient is another collective."""
    x, _, second = _weights()
    mine, group = x + rank, dist.group.WORLD
    sent, received = ([3, 1], [3, 2]) if rank == 0 else ([2, 2], [1, 2])

    def loss(x: Tensor, w: Tensor) -> Any:
        rows = funcol.all_gather_tensor_autograd(x, 0, group) @ w
        rows = funcol.reduce_scatter_tensor_autograd(rows, "sum", 0, group)
        return funcol.all_to_all_single_autograd(rows, received, sent, group).square().sum()

    def step(run: Any) -> list[Tensor]:
        leaves = [t.clone().requires_grad_() for t in (mine, second)]
        value = run(*leaves)
        value.backward()
        return [value.detach(), *(t.grad for t in leaves if t.grad is not None)]

    want = step(loss)
    for backend in BACKENDS:
        assert_same(step(torch.compile(loss, backend=backend, fullgraph=True)), want)


def data_parallel(rank: int) -> None:
    """One graph: gradients, their sum over all processes, and the in-place update of the parameters."""
    x, first, second = _weights()
    mine = x[rank * 2 : rank * 2 + 2]

    def loss(parameters: list[Tensor], x: Tensor) -> Tensor:
        return (torch.relu(x @ parameters[0].t()) @ parameters[1].t()).square().sum()

    def update(parameters: list[Tensor], x: Tensor) -> Any:
        grads, value = torch.func.grad_and_value(loss)(parameters, x)
        for parameter, grad in zip(parameters, funcol.all_reduce_coalesced(grads, "sum", dist.group.WORLD)):
            parameter.sub_(grad, alpha=0.01)
        return funcol.all_reduce(value, "sum", dist.group.WORLD)

    def train(run: Any, x: Tensor) -> list[Tensor]:
        parameters = [first.clone(), second.clone()]
        return [*(run(parameters, x).clone() for _ in range(2)), *parameters]

    def alone(parameters: list[Tensor], x: Tensor) -> Any:
        grads, value = torch.func.grad_and_value(loss)(parameters, x)
        for parameter, grad in zip(parameters, grads):
            parameter.sub_(grad, alpha=0.01)
        return value

    want = train(alone, x)
    assert_same(train(update, mine), want)
    for backend in BACKENDS:
        assert_same(train(torch.compile(update, backend=backend, fullgraph=True), mine), want)


def _model() -> nn.Sequential:
    _, first, second = _weights()
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 4, bias=False))
    model.load_state_dict({"0.weight": first, "2.weight": second})
    return model


def _gradients(model: Any, run: Any, x: Tensor) -> list[Tensor]:
    loss = run(x).square().sum()
    loss.backward()
    grads = [p.grad for p in model.parameters()]
    return [g.full_tensor() if hasattr(g, "full_tensor") else g for g in grads]


def wrapped_data_parallel(rank: int) -> None:
    """Torch's own wrapper around a compiled module: it sums gradients while the backward graph runs."""
    x, *_ = _weights()
    reference = _model()
    want = [g / WORLD for g in _gradients(reference, reference, x)]
    wrapped = DistributedDataParallel(_model())
    run = torch.compile(wrapped, backend="wrapper_ir")
    assert_same(_gradients(wrapped, run, x[rank * 2 : rank * 2 + 2]), want)


def distributed_tensors(rank: int) -> None:
    """Parameters that are split over the processes as subclasses of tensors.

    Torch inserts the collectives.
    """
    x, *_ = _weights()
    reference = _model()
    want = _gradients(reference, reference, x)
    mesh = init_device_mesh("cpu", (WORLD,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(_model(), mesh, plan)
    assert_same(_gradients(model, torch.compile(model, backend="wrapper_ir"), x), want)


TRAINING: Mapping[str, Callable[[int], None]] = MappingProxyType(
    {
        f.__name__: f
        for f in (
            tensor_parallel,
            sequence_parallel,
            data_parallel,
            wrapped_data_parallel,
            distributed_tensors,
        )
    }
)
