"""Inductor's passes trace each kind of replacement once a graph.

What takes the place of a match is a function, which torch traces for every match: some 6 ms each. In a model of equal layers a pattern
matches in every layer with tensors of the same sizes (a bias that the kernel after a matmul adds), and the traces are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import REPLACEMENT_TRACES

# Any in this file: what a function of torch's is traced with, and what a node knows.
Trace = Callable[..., fx.GraphModule]

_NUMBERS = (bool, int, float, type(None), str, torch.dtype, torch.device)


@dataclass(frozen=True, slots=True)
class _Traced:
    """A trace, and what its nodes knew: whoever asked for it first adds to that."""

    graph: fx.GraphModule
    facts: Mapping[fx.Node, Mapping[str, Any]]

    def again(self) -> fx.GraphModule:
        """The same graph, as if it had been traced anew: its results lie in memory of their own."""
        for node, facts in self.facts.items():
            node.meta.clear()
            node.meta.update({k: _copied(v) for k, v in facts.items()})
            if node.op == "call_function":
                node.meta["val"] = _alike(facts["val"])
        return self.graph


@dataclass(slots=True)
class _Traces:
    """The traces of one graph's replacements, by what decides them; None for one that is not taken again."""

    trace: Trace
    found: dict[Hashable, _Traced | None] = field(default_factory=dict)

    def __call__(self, function: Any, args: Sequence[Any], **options: Any) -> fx.GraphModule:
        """What `trace` makes of a function."""
        key = _key(function, args, options)
        known = None if key is None else self.found.get(key)
        if known is not None:
            return known.again()
        graph = self.trace(function, args, **options)
        if key is not None and key not in self.found:
            self.found[key] = _reusable(graph, args)
        return graph


@contextmanager
def equal_replacements_traced_once() -> Iterator[None]:
    """While the context is active, which is for the passes over one graph, torch traces equal replacements once."""
    with replaced(REPLACEMENT_TRACES.by(fwd_only=_Traces(REPLACEMENT_TRACES.own()))):
        yield


def _key(function: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Hashable | None:
    """What decides a trace; None where that cannot be told: a function that holds more than numbers, sizes that are symbols."""
    if type(function) is not FunctionType:
        return None
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    plain = [*held, *(x for x in args if not isinstance(x, torch.Tensor))]
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    if not all(type(x) in _NUMBERS for x in plain) or not all(map(_is_plain, tensors)):
        return None
    which = tuple(next(i for i, other in enumerate(args) if other is x) for x in tensors)
    kinds = tuple(_layout(x) if isinstance(x, torch.Tensor) else (type(x), repr(x)) for x in args)
    return (
        function.__code__,
        tuple((type(x), repr(x)) for x in held),
        kinds,
        which,
        tuple(sorted(options.items())),
    )


def _is_plain(x: Any) -> bool:
    """Whether it is a tensor that sizes, strides, type and device say everything about."""
    return (
        type(x) is FakeTensor
        and x.layout is torch.strided
        and all(type(n) is int for n in (*x.size(), *x.stride(), x.storage_offset()))
        and not (x.requires_grad or x.is_conj() or x.is_neg())
    )


def _layout(x: torch.Tensor) -> Hashable:
    return (tuple(x.size()), x.stride(), x.storage_offset(), x.dtype, x.device)


def _reusable(graph: fx.GraphModule, args: Sequence[Any]) -> _Traced | None:
    """A trace that can be taken again: each of its operators gives one tensor, in memory of its own."""
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
    facts = {node: {k: _copied(v) for k, v in node.meta.items()} for node in graph.graph.nodes}
    return _Traced(graph, facts)


def _copied(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _storage(x: torch.Tensor) -> int:
    number: int = x.untyped_storage()._cdata
    return number


def _alike(x: FakeTensor) -> torch.Tensor:
    with x.fake_mode:
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
