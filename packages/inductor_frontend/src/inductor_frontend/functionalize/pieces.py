"""Replaces operators that return several views (`chunk`, `split`, `unbind`), and writes to views, without
guards.

torch's functionalization of a write to a piece of `split` checks whether the piece is shorter than the
others. That of a write to a piece of `unbind` specializes the sizes of the base (`FunctionalInverses.cpp`).
Each check adds a guard. A program has one graph, so it would refuse all sizes that violate the guard. Views
with explicit sizes, and single views, need no check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import torch
from torch import Tensor, fx
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch._prims_common import clone_preserve_strides

from inductor_frontend.torch_patches.replaced import replaced_kernels
from inductor_frontend.torch_patches.table import COPIES, SECTIONS
from wrapper_ir_torch.graph_modules import graph_modules

_ATEN = torch.ops.aten
Pieces = Sequence[Tensor]


def _sized(x: Tensor, sizes: list[int], dim: int) -> Pieces:
    """Returns views of these sizes, followed by a view of the remainder of `x`."""
    pieces: Pieces = _ATEN.split_with_sizes.default(x, [*sizes, x.size(dim) - sum(sizes)], dim)
    return pieces


def _split(x: Tensor, size: int, dim: int = 0) -> Pieces:
    n = x.size(dim)
    count = (
        1 if size == 0 else int((n + size - 1) // size)
    )  # torch adds the same guards on the number of pieces
    return _sized(x, [size] * (count - 1), dim)


def _chunk(x: Tensor, chunks: int, dim: int = 0) -> Pieces:
    size = (x.size(dim) + chunks - 1) // chunks
    return _sized(x, [size] * (chunks - 1), dim) if size == 0 else _split(x, size, dim)


def _sections(x: Tensor, sections: int, dim: int = 0) -> Pieces:
    """Returns `sections` views; the first ones are longer by 1 if the size is not divisible."""
    n = x.size(dim)
    return _sized(x, [(n + sections - 1 - i) // sections for i in range(sections - 1)], dim)


def _unbind(x: Tensor, dim: int = 0) -> Pieces:
    return tuple(_ATEN.select.int(x, dim, i) for i in range(x.size(dim)))


_PIECES: Mapping[OpOverload, Callable[..., Pieces]] = MappingProxyType(
    {_ATEN.chunk.default: _chunk, _ATEN.split.Tensor: _split, _ATEN.unbind.int: _unbind}
)


def with_sized_pieces(gm: fx.GraphModule) -> None:
    """Replaces the operators in a graph, and in copies of its nested control-flow graphs."""
    for node in _calls(gm):
        assert isinstance(node.target, OpOverload)
        node.target = _PIECES[node.target]
    for name, child in gm.named_children():
        if isinstance(child, fx.GraphModule) and any(any(_calls(m)) for m in graph_modules(child)):
            graph = fx.Graph()
            graph.output(graph.graph_copy(child.graph, {}))
            copy = fx.GraphModule(child, graph)
            with_sized_pieces(copy)
            gm.add_module(name, copy)
    gm.recompile()


def _calls(module: fx.GraphModule) -> Iterator[fx.Node]:
    return (n for n in module.graph.nodes if n.op == "call_function" and n.target in _PIECES)


def _copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """Returns the result of `aten.copy`, which has the layout of `x`.

    torch's meta kernel checks every layout for internal overlap, which adds guards.
    """
    if torch._debug_has_internal_overlap(x) == 1:
        return x.clone()
    result: Tensor = clone_preserve_strides(x)  # type: ignore[no-untyped-call]  # torch's
    return result


@contextmanager
def sized_writes() -> Iterator[None]:
    """Traces `tensor_split` without a guard on the remainder, and `copy` without guards on the layout."""
    with replaced_kernels(
        (SECTIONS, DispatchKey.CompositeImplicitAutograd, _sections), (COPIES, DispatchKey.Meta, _copied)
    ):
        yield
