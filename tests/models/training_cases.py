"""Training steps of the zoo's models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tests.common.compare import clone_tree
from tests.common.zoo import ZOO, Case


def training_case(name: str) -> Case:
    """The case with its model in training mode; dropout off, so that eager draws the same (no) numbers."""
    case = ZOO[name]()
    case.model.train()
    for module in case.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return case


def loss_of(outputs: Any) -> Tensor:  # Any: the model's own output structure
    """A scalar that depends on every floating output."""
    leaves = [t for t in pytree.tree_leaves(outputs) if isinstance(t, Tensor) and t.is_floating_point()]
    return torch.stack([(t.float() ** 2).mean() for t in leaves]).sum()


def step(model: Any, case: Case) -> Tensor:  # Any: a module or a compiled callable
    """Runs forward and backward; gradients stay in the parameters."""
    loss = loss_of(model(*clone_tree(case.args), **clone_tree(dict(case.kwargs or {}))))
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it so
    return loss.detach()
