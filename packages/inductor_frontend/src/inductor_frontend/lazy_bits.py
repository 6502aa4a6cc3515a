"""Resolves tensors with the conjugate or negative bit, whose memory differs from their elements.

Programs have no type for them, and kernels read memory. Such a tensor is replaced by a plain tensor of the
same sizes, strides and offset. `resolve_conj` and `resolve_neg` do not preserve strides and offset if
elements have gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from inductor_frontend.boxed import Boxed

if TYPE_CHECKING:
    from torch._inductor.utils import InputType

# Any in this file: tensors and numbers of a graph.

_REINTERPRETING = (torch.ops.aten.view_as_real.default, torch.ops.aten.view.dtype)


def is_lazy(tensor: torch.Tensor) -> bool:
    """Returns whether elements are conjugated or negated when they are read."""
    return tensor.is_conj() or tensor.is_neg()


def elements_of(tensor: torch.Tensor, offset: int, count: int) -> torch.Tensor:
    """Returns `count` elements of the storage from `offset`: a view, or a copy with the bits applied if the
    tensor is lazy."""
    plain, conjugated, negated = tensor.detach(), tensor.is_conj(), tensor.is_neg()
    if conjugated:
        plain = torch._conj(plain)
    if negated:
        plain = torch._neg_view(plain)
    flat = plain.as_strided((count,), (1,), offset)
    if conjugated:
        flat = torch.conj_physical(flat)
    return torch.neg(flat) if negated else flat


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or, if it is lazy, a tensor of the same elements and geometry over a copy of its
    storage."""
    if not is_lazy(tensor):
        return tensor
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    flat = elements_of(tensor, 0, count)
    return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def resolved_leaves(tree: object) -> Any:
    """Replaces lazy tensors of arguments by plain ones, which programs require. A repeated tensor stays one
    tensor."""
    leaves = [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]
    plain = {id(x): _plain_leaf(x) for x in leaves if x.layout is torch.strided and is_lazy(x)}
    return pytree.tree_map_only(torch.Tensor, lambda x: plain.get(id(x), x), tree) if plain else tree


def _plain_leaf(x: torch.Tensor) -> torch.Tensor:
    plain = resolved(x)
    vars(plain).update(vars(x))  # marks of dynamic sizes
    return plain.requires_grad_(x.requires_grad)


def without_bits(gm: fx.GraphModule, inputs: Sequence[InputType]) -> Sequence[InputType]:
    """Returns the (fake) inputs of a graph without bits, as at run time, and adapts the graph.

    A view as another dtype needs a plain tensor, which the trace may have obtained by conjugating a
    conjugated input. Such views are replaced by views of copies.
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not any(map(is_lazy, tensors)):
        return inputs
    if any(x.is_conj() for x in tensors):
        for target in _REINTERPRETING:
            for node in gm.graph.find_nodes(op="call_function", target=target):
                if not node.args[0].meta["val"].is_complex():
                    continue
                with gm.graph.inserting_before(node):
                    flipped = gm.graph.call_function(torch.ops.aten._conj.default, (node.args[0],))
                    plain = gm.graph.call_function(torch.ops.aten.conj_physical.default, (flipped,))
                node.args = (plain, *node.args[1:])
        gm.recompile()
    return [_view_without_bits(x) if isinstance(x, torch.Tensor) else x for x in inputs]


def _view_without_bits(x: torch.Tensor) -> torch.Tensor:
    if x.is_conj():
        x = torch._conj(x)
    return torch._neg_view(x) if x.is_neg() else x


def share_lazily(inputs: Sequence[InputType]) -> bool:
    """Returns whether a lazy tensor shares its storage with another input.

    If either is written, autograd replaces both by views of one base, and loses the bits.
    """
    tensors = [x for x in inputs if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    lazy = [x for x in tensors if is_lazy(x)]
    if not lazy:
        return False
    count = Counter(x.untyped_storage()._cdata for x in tensors if torch._C._has_storage(x))
    return any(count[x.untyped_storage()._cdata] > 1 for x in lazy)


def resolving(run: Boxed, positions: Sequence[int], writes: Collection[int]) -> Boxed:
    """Wraps `run` to receive plain tensors in place of lazy ones at these positions; those in
    `writes` are copied back."""

    def call(args: list[Any]) -> Sequence[Any]:
        lazy: list[tuple[torch.Tensor, torch.Tensor]] = []
        for position in positions:
            original = args[position]
            args[position] = plain = resolved(original)
            if plain is not original and position in writes:
                lazy.append((original, plain))
            del original, plain
        results = run(args)
        with torch.no_grad():
            for original, plain in lazy:
                original.copy_(plain)
        return results

    return call
