"""Fake results of custom operators, which share memory with nothing where the schema promises new tensors.

A schema without alias annotations makes that promise. A fake kernel that returns its argument (`lambda x, n: x`) has the
right sizes and breaks it: tracers tell tensors apart by identity, and AOTAutograd finds views by storage, so both take
the result for the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import FAKE_RESULTS
from wrapper_ir.operators.library import LIBRARIES

# Any in this file: arguments and results of any operator.

_OTHERS = """
    _c10d_functional_autograd _dtensor _quantized c10d c10d_functional debugprims export flex_lib fsdp mkldnn_prepacked onednn prim
    profiler quantized_decomposed rngprims streams symm_mem
"""
_TORCH = LIBRARIES.union(_OTHERS.split())
"""Namespaces of torch's own operators: their fake kernels are right, also where a schema leaves an alias out."""
_COMPOSITE = "CompositeImplicitAutograd"


@contextmanager
def fresh_fakes() -> Iterator[None]:
    """While the context is active, fake results that are declared as new tensors are new."""
    plain = FAKE_RESULTS.own()

    def dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = plain(mode, func, types, args, kwargs)
        if not fresh_returns(func):
            return result
        return _map_shared(func, result, (args, kwargs), lambda tensor: _like(mode, tensor))

    with replaced(FAKE_RESULTS.by(_dispatch_impl=dispatch)):
        yield


@lru_cache(maxsize=4096)
def fresh_returns(operator: object) -> frozenset[int]:
    """The positions of the returns that a custom operator declares as new tensors. Of a composite operator none: its kernel is
    its fake kernel, so that what is shared here is shared at run time."""
    if not isinstance(operator, OpOverload) or operator.namespace in _TORCH:
        return frozenset()
    name = operator.name()  # type: ignore[no-untyped-call]  # torch's
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, _COMPOSITE):
        return frozenset()
    returns = enumerate(operator._schema.returns)
    return frozenset(i for i, r in returns if r.alias_info is None and "Tensor" in str(r.type))


def shared_results(operator: object, result: Any, operands: Any) -> list[torch.Tensor]:
    """The fake tensors of a result that are declared as new, and share memory with an operand or another result."""
    found: list[torch.Tensor] = []

    def noted(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    if fresh_returns(operator):
        _map_shared(operator, result, operands, noted)
    return found


def _map_shared(
    operator: Any, result: Any, operands: Any, replacement: Callable[[torch.Tensor], torch.Tensor]
) -> Any:
    """The result, with replacements for declared new tensors that share memory with an operand or a tensor before them."""
    fresh, count = fresh_returns(operator), len(operator._schema.returns)
    storages = _storages(pytree.tree_leaves(operands))

    def separate(tensor: torch.Tensor) -> torch.Tensor:
        if not storages.isdisjoint(_storages([tensor])):
            tensor = replacement(tensor)
        storages.update(_storages([tensor]))
        return tensor

    parts = [result] if count == 1 else [*result]
    for i, part in enumerate(parts):
        if i in fresh:
            parts[i] = pytree.tree_map_only(torch.Tensor, separate, part)
        else:
            storages.update(_storages(pytree.tree_leaves(part)))
    return parts[0] if count == 1 else tuple(parts)


def _like(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake tensor of the same sizes and strides in separate memory; dense where the original is expanded, as new tensors are."""
    layout = zip(tensor.size(), tensor.stride())
    # Comparing symbols would be a guard.
    is_expanded = any(
        type(stride) is int and stride == 0 and not (type(size) is int and size <= 1)
        for size, stride in layout
    )
    with mode:
        if is_expanded:
            return torch.empty_like(tensor)
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _storages(values: Iterable[object]) -> set[int]:
    """The storages below tensors. Other layouts have none, and results of batched functions show none."""
    return {
        x.untyped_storage()._cdata
        for x in values
        if isinstance(x, torch.Tensor) and x.layout is torch.strided and not is_functorch_wrapped_tensor(x)
    }
