"""Example arguments in which one tensor occurs several times, or shares the memory of another."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

# Any in this file: arguments of any model.


def separate(tree: object) -> Any:
    """Replaces repeated tensor objects and views by distinct tensors on the same memory.

    torch traces a repeated tensor as one input, and creates symbols for the sizes of a view's base.
    """
    leaves = [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]
    if len({id(x) for x in leaves}) == len(leaves) and not any(_is_plain_view(x) for x in leaves):
        return tree
    ids: set[int] = set()

    def renew(x: torch.Tensor) -> torch.Tensor:
        repeated = id(x) in ids
        ids.add(id(x))
        if _is_plain_view(x):
            return _alone(x)
        return _alone(x) if repeated and type(x) is torch.Tensor else x.detach() if repeated else x

    return pytree.tree_map_only(torch.Tensor, renew, tree)


def repeated_leaves(tree: object) -> frozenset[int]:
    """Returns the positions of the leaves whose tensor object occurs at several leaves."""
    leaves = pytree.tree_leaves(tree)
    places: dict[int, list[int]] = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            places.setdefault(id(leaf), []).append(number)
    return frozenset(n for numbers in places.values() if len(numbers) > 1 for n in numbers)


def _is_plain_view(x: torch.Tensor) -> bool:
    strided = type(x) is torch.Tensor and x.layout is torch.strided and not x.is_conj() and not x.is_neg()
    return strided and not x.is_inference() and x._is_view()


def _alone(x: torch.Tensor) -> torch.Tensor:
    copy = torch.empty(0, dtype=x.dtype, device=x.device)
    copy.set_(x.untyped_storage(), x.storage_offset(), x.size(), x.stride())
    vars(copy).update(vars(x))  # marks of dynamic sizes
    return copy.requires_grad_(x.requires_grad)
