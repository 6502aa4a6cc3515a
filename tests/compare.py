"""Comparison of results with eager PyTorch, and of memory between two ways to run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

__all__ = ["assert_same", "clone_tree", "peak_bytes"]


# Any: nested results of any model.
def assert_same(got: Any, want: Any, *, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Same structure, dtypes and sizes, and elements within tolerance."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec, f"{got_spec} != {want_spec}"
    for i, (a, b) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if isinstance(b, Tensor):
            assert isinstance(a, Tensor), f"output {i}"
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, msg=partial("output {}: {}".format, i))
        else:
            assert a == b, f"output {i}: {a} != {b}"


def clone_tree(tree: Any) -> Any:
    """A copy of every tensor, so that mutation of one call does not reach the next."""
    return pytree.tree_map_only(Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), tree)


def peak_bytes(run: Callable[[], object]) -> int:
    """Highest number of bytes that the CPU allocator held for tensors made during `run`, above the start."""
    gc.collect()  # what others left behind would count as given back by `run`
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        run()
    results = profile.profiler.kineto_results
    changes = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU  # type: ignore[attr-defined]  # not in the stubs
    ]
    held = peak = 0
    for _, nbytes in sorted(changes, key=lambda c: c[0]):
        held += nbytes
        peak = max(peak, held)
    return peak
