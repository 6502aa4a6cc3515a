"""All effects of a call that its caller can observe.

They are results, the caller's tensors afterwards, identity and shared memory of tensors, autograd's state,
and the reach of a write through each tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

# Any in this file: models, their arguments and results.
Call = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Observations of some calls of one function, in plain values that can be compared."""

    results: Any
    """Structure and values of the results of each call."""
    classes: Any
    """Classes of the results' containers and leaves."""
    arguments: Any
    """Sizes, strides, offsets and elements of the arguments after each call."""
    identity: Any
    """Pairs of tensors, of arguments and results, that are one object."""
    sharing: Any
    """Pairs that share memory, with the offset of each."""
    views: Any
    """Arguments that autograd knows as changed when a result is written."""
    versions: Any
    """Arguments that autograd knows as changed by the call."""
    writes: Any
    """All elements of all tensors after a write through each result in turn."""


def observe(function: Callable[..., Any], make: Callable[[], Call], calls: int = 1) -> Seen:
    """Calls a function some times, with the same kind of fresh arguments, and looks at everything."""
    found: list[dict[str, Any]] = [_observe(function, make) for _ in range(calls)]
    return Seen(**{f.name: [one[f.name] for one in found] for f in fields(Seen)})


def differences(a: Seen, b: Seen) -> set[str]:
    """Names of the aspects in which two observations differ; elements may differ by rounding."""
    return {
        f.name for f in fields(Seen) if not _same(getattr(a, f.name), getattr(b, f.name))
    }  # its own fields


def _observe(function: Callable[..., Any], make: Callable[[], Call]) -> dict[str, Any]:
    args, kwargs = make()
    given = _tensors((args, kwargs))
    before = [_version(t) for t in given]
    result = function(*args, **kwargs)
    changed = [i for i, t in enumerate(given) if _version(t) > before[i]]
    returned = _tensors(result)
    named = [(f"in{i}", t) for i, t in enumerate(given)] + [(f"out{i}", t) for i, t in enumerate(returned)]
    leaves, spec = pytree.tree_flatten(_opened(result))
    seen = {
        "results": (str(spec), [_value(x) for x in leaves]),
        "classes": _classes(result),
        "arguments": [_value(t) for t in given],
        "identity": _pairs(named, lambda a, b: True if a is b else None),
        "sharing": _pairs(named, _shared),
        "versions": changed,
    }
    seen["views"] = [_followers(out, named) for out in returned]
    seen["writes"] = [_written(i, out, named) for i, out in enumerate(returned)]
    return seen


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else x._version


def _opened(tree: Any) -> Any:
    """Returns `tree` with data classes as dictionaries: torch treats them as leaves."""
    if is_dataclass(tree) and not isinstance(tree, type):
        return {f.name: _opened(getattr(tree, f.name)) for f in fields(tree)}  # its own fields
    if type(tree) in (tuple, list):
        return type(tree)(_opened(x) for x in tree)
    return tree


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(_opened(tree)) if isinstance(x, Tensor)]


def _classes(tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, [_classes(x) for x in tree]
    if isinstance(tree, Mapping):
        return type(tree).__name__, {k: _classes(v) for k, v in tree.items()}
    # Weights are returned as plain tensors: a signature does not contain a module's registrations.
    return "Tensor" if type(tree) is torch.nn.Parameter else type(tree).__name__


def _value(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    wrapper = _wrapper(x)
    if wrapper is not None:
        names, context = wrapper.__tensor_flatten__()
        return [type(x).__name__, str(context), *(_value(getattr(x, name)) for name in names)]
    return x.dtype, *_place(x), x.detach().clone()


def _wrapper(x: Any) -> Any:
    """Returns `x` if it wraps other tensors, else None."""
    return x if is_traceable_wrapper_subclass(x) else None


def _place(x: Tensor) -> tuple[Any, ...]:
    strides = tuple(s for s, n in zip(x.stride(), x.size()) if n != 1)  # a dimension of size 1 has no stride
    return tuple(x.size()), strides, x.storage_offset()


def _pairs(named: list[tuple[str, Tensor]], relation: Callable[[Tensor, Tensor], Any]) -> dict[str, Any]:
    found = {}
    for i, (name, a) in enumerate(named):
        for other, b in named[i + 1 :]:
            related = relation(a, b)
            if related is not None:
                found[f"{name} {other}"] = related
    return found


def _plain(x: Tensor) -> list[Tensor]:
    wrapper = _wrapper(x)
    if wrapper is not None:
        names, _ = wrapper.__tensor_flatten__()
        return [p for name in names for p in _plain(getattr(x, name))]
    return [x]


def _shared(a: Tensor, b: Tensor) -> Any:
    pairs = [
        (_place(p), _place(q))
        for p in _plain(a)
        for q in _plain(b)
        if p.numel() and q.numel() and p.untyped_storage()._cdata == q.untyped_storage()._cdata
    ]
    return pairs or None


def _followers(out: Tensor, named: list[tuple[str, Tensor]]) -> list[str]:
    """Returns the arguments whose versions increase with that of a result."""
    before = [_version(t) for _, t in named]
    torch.autograd.graph.increment_version(out)
    return [n for (n, t), v in zip(named, before) if _version(t) > v and n.startswith("in")]


def _written(number: int, out: Tensor, named: list[tuple[str, Tensor]]) -> Any:
    with torch.no_grad():
        for part in _plain(out):
            (part if 0 not in part.stride() else part[(0,) * part.dim()]).fill_(number + 50)
    return [(name, _value(t)) for name, t in named]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        same = a.shape == b.shape and a.dtype == b.dtype
        return same and torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b) or (a != a and b != b)
