"""Separate fake tensors for results that a custom operator's schema declares as new.

A fake kernel that returns its argument (`lambda x, n: x`) has the right sizes, but tracers identify tensors
by object and AOTAutograd finds views by storage: both take the result for the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import FAKE_RESULTS
from wrapper_ir.operators.library import LIBRARIES

_OTHERS = """
    _c10d_functional_autograd _dtensor _quantized c10d c10d_functional debugprims export flex_lib fsdp
    mkldnn_prepacked onednn prim profiler quantized_decomposed rngprims streams symm_mem
"""
_TORCH = LIBRARIES.union(_OTHERS.split())
"""Namespaces of torch's own operators: their fake kernels are right, even if a schema omits an alias."""
_COMPOSITE = "CompositeImplicitAutograd"


@contextmanager
def fresh_fakes() -> Iterator[None]:
    """Replaces fake results that are declared as new and share memory, while the context is active."""
    plain = FAKE_RESULTS.own()

    def dispatch(
        mode: FakeTensorMode, func: OpOverload, types: object, args: object, kwargs: object
    ) -> object:
        result = plain(mode, func, types, args, kwargs)
        if not fresh_returns(func):
            return result
        return _map_shared(func, result, (args, kwargs), lambda tensor: _like(mode, tensor))

    with replaced(FAKE_RESULTS.by(_dispatch_impl=dispatch)):
        yield


@lru_cache(maxsize=4096)
def fresh_returns(operator: object) -> frozenset[int]:
    """Returns the positions of the returns that a custom operator declares as new tensors.

    Composite operators have none: their kernel is their fake kernel, so results share the same memory at run
    time.
    """
    if not isinstance(operator, OpOverload) or operator.namespace in _TORCH:
        return frozenset()
    name = operator.name()  # type: ignore[no-untyped-call]  # torch's
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, _COMPOSITE):
        return frozenset()
    returns = enumerate(operator._schema.returns)
    return frozenset(i for i, r in returns if r.alias_info is None and "Tensor" in str(r.type))


def shared_results(operator: OpOverload, result: object, operands: object) -> list[torch.Tensor]:
    """Returns the fake tensors that are declared as new, and share memory with an operand or another
    result."""
    shared: list[torch.Tensor] = []

    def noted(tensor: torch.Tensor) -> torch.Tensor:
        shared.append(tensor)
        return tensor

    if fresh_returns(operator):
        _map_shared(operator, result, operands, noted)
    return shared


def _map_shared(
    operator: OpOverload,
    result: object,
    operands: object,
    replacement: Callable[[torch.Tensor], torch.Tensor],
) -> object:
    """Replaces the tensors of a result that are declared as new, and share memory with an operand or earlier
    result."""
    fresh, count = fresh_returns(operator), len(operator._schema.returns)
    storages = _storages(pytree.tree_leaves(operands))

    def separate(tensor: torch.Tensor) -> torch.Tensor:
        if not storages.isdisjoint(_storages([tensor])):
            tensor = replacement(tensor)
        storages.update(_storages([tensor]))
        return tensor

    parts: list[object] = [result] if count == 1 or not isinstance(result, tuple | list) else [*result]
    for i, part in enumerate(parts):
        if i in fresh:
            parts[i] = pytree.tree_map_only(torch.Tensor, separate, part)
        else:
            storages.update(_storages(pytree.tree_leaves(part)))
    return parts[0] if count == 1 else tuple(parts)


def _like(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a fake tensor of the same sizes and strides in separate memory, dense if the original is
    expanded."""
    layout = zip(tensor.size(), tensor.stride())
    # Comparing symbols would add a guard.
    is_expanded = any(
        type(stride) is int and stride == 0 and not (type(size) is int and size <= 1)
        for size, stride in layout
    )
    with mode:
        if is_expanded:
            return torch.empty_like(tensor)
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _storages(values: Iterable[object]) -> set[int]:
    """Returns the storages of tensors. Other layouts have none, and results of batched functions show
    none."""
    return {
        x.untyped_storage()._cdata
        for x in values
        if isinstance(x, torch.Tensor) and x.layout is torch.strided and not is_functorch_wrapped_tensor(x)
    }
