"""Triton kernels of a model's own, called as `kernel[grid](...)`: traced as the operator that upstream has for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._triton import has_triton_package

__all__ = ["traced_kernels"]

# Any: kernels and grids are the user's own, and triton publishes no types.


@contextmanager
def traced_kernels() -> Iterator[None]:
    """For its length, launches that this thread traces become nodes of the graph; torch.export sees through a launch only
    where `torch.library.wrap_triton` was called on its kernel, which is what happens here."""
    if not has_triton_package():
        yield
        return
    from triton.runtime.jit import KernelInterface

    with mock.patch.object(KernelInterface, "__getitem__", _tracing(KernelInterface.__getitem__)):
        yield


def _tracing(plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def getitem(kernel: Any, grid: Any) -> Any:
        if get_proxy_mode() is None:
            return plain(kernel, grid)
        return torch.library.wrap_triton(kernel)[grid]

    return getitem
