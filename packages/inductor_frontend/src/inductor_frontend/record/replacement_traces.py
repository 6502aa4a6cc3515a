"""Caches traces of replacements in Inductor's passes, for the duration of one graph.

A pattern's replacement is a function, which torch traces for every match in about 6 ms. In a model of equal
layers, a pattern matches in every layer with tensors of the same sizes (such as a bias that is added after a
matmul), and the traces are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import TypeGuard

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import REPLACEMENT_TRACES

Trace = Callable[..., fx.GraphModule]

_NUMBERS = (bool, int, float, type(None), str, torch.dtype, torch.device)


@dataclass(frozen=True, slots=True)
class _Traced:
    """A trace with a copy of its nodes' metadata, which the first user of the trace mutates."""

    graph: fx.GraphModule
    metadata: Mapping[fx.Node, Mapping[str, object]]

    def again(self) -> fx.GraphModule:
        """Returns the graph in the state of a new trace; its fake results have new storages."""
        for node, metadata in self.metadata.items():
            node.meta.clear()
            node.meta.update({k: _copied(v) for k, v in metadata.items()})
            if _is_plain(value := metadata.get("val")) and node.op == "call_function":
                node.meta["val"] = _alike(value)
        return self.graph


@dataclass(slots=True)
class _Traces:
    """Cache of traces of one graph's replacements; None for a trace that cannot be reused."""

    trace: Trace
    entries: dict[Hashable, _Traced | None] = field(default_factory=dict)

    def __call__(self, function: object, args: Sequence[object], **options: object) -> fx.GraphModule:
        """Traces a function, or returns its cached trace."""
        key = _key(function, args, options)
        entry = None if key is None else self.entries.get(key)
        if entry is not None:
            return entry.again()
        graph = self.trace(function, args, **options)
        if key is not None and key not in self.entries:
            self.entries[key] = _reusable(graph, args)
        return graph


@contextmanager
def equal_replacements_traced_once() -> Iterator[None]:
    """Lets torch trace equal replacements once while the context is active: for the passes over one graph."""
    with replaced(REPLACEMENT_TRACES.by(fwd_only=_Traces(REPLACEMENT_TRACES.own()))):
        yield


def _key(function: object, args: Sequence[object], options: Mapping[str, object]) -> Hashable | None:
    """Returns the cache key of a trace; None if the function captures more than plain values, or a size is
    symbolic."""
    if type(function) is not FunctionType:
        return None
    captured = [cell.cell_contents for cell in function.__closure__ or ()]
    captured += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    plain = [*captured, *(x for x in args if not isinstance(x, torch.Tensor))]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    if not all(type(x) in _NUMBERS for x in plain) or not all(map(_is_plain, tensors)):
        return None
    which = tuple(next(i for i, other in enumerate(args) if other is x) for x in tensors)
    kinds = tuple(_layout(x) if isinstance(x, torch.Tensor) else (type(x), repr(x)) for x in args)
    return (
        function.__code__,
        tuple((type(x), repr(x)) for x in captured),
        kinds,
        which,
        tuple(sorted(options.items())),
    )


def _is_plain(x: object) -> TypeGuard[FakeTensor]:
    """Returns whether sizes, strides, dtype and device describe a tensor completely."""
    return (
        type(x) is FakeTensor
        and x.layout is torch.strided
        and all(type(n) is int for n in (*x.size(), *x.stride(), x.storage_offset()))
        and not (x.requires_grad or x.is_conj() or x.is_neg())
    )


def _layout(x: torch.Tensor) -> Hashable:
    return (tuple(x.size()), x.stride(), x.storage_offset(), x.dtype, x.device)


def _reusable(graph: fx.GraphModule, args: Sequence[object]) -> _Traced | None:
    """Returns the entry of a trace; None unless each of its operators returns one tensor in a new storage."""
    storages = {_storage(x) for x in args if isinstance(x, torch.Tensor)}
    for node in graph.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(node.target, OpOverload) or not _is_plain(value):
            return None
        if value.storage_offset() or _storage(value) in storages:
            return None
        storages.add(_storage(value))
    metadata = {node: {k: _copied(v) for k, v in node.meta.items()} for node in graph.graph.nodes}
    return _Traced(graph, metadata)


def _copied(value: object) -> object:
    return list(value) if isinstance(value, list) else value


def _storage(x: torch.Tensor) -> int:
    number: int = x.untyped_storage()._cdata
    return number


def _alike(x: FakeTensor) -> torch.Tensor:
    with x.fake_mode:
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
