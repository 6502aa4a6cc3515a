"""Comparison of results with eager PyTorch, and of memory between two ways to run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from wrapper_ir.collection import paused_collection

__all__ = ["allocated", "assert_same", "clone_tree", "peak_bytes"]


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
    """Highest number of bytes that the CPU allocator held at once of what it gave out during `run`.

    What is given back counts only if it was given out during `run`: the profiler keeps the sizes that earlier
    profiles saw, so memory that another test used, at an address in use again, would count with its old size.
    """
    live: dict[int, int] = {}
    held = peak = 0
    for _, _, address, nbytes in _memory_changes(run):
        if nbytes > 0:
            live[address] = nbytes
            held += nbytes
            peak = max(peak, held)
        else:
            held -= live.pop(address, 0)
    return peak


def allocated(run: Callable[[], object]) -> list[int]:
    """The bytes of each request of `run` to the CPU allocator, operators' own included."""
    return [nbytes for _, _, _, nbytes in _memory_changes(run) if nbytes > 0]


def _memory_changes(run: Callable[[], object]) -> list[tuple[int, int, int, int]]:
    gc.collect()
    with (
        paused_collection(),  # else the peak depends on how many objects were made before `run`
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile,
    ):
        run()
    return sorted(_allocations(profile.profiler.kineto_results.experimental_event_tree()))


# Any: the profiler's events have no public type.
def _allocations(events: list[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Of each change by the CPU allocator in a tree of events: time in ns, order of the event, address, bytes."""
    stack = list(reversed(events))
    order = 0
    while stack:
        event = stack.pop()
        stack.extend(reversed(event.children))
        if event.tag == torch._C._profiler._EventType.Allocation and event.extra_fields.device.type == "cpu":
            order += 1
            yield event.start_time_ns, order, event.extra_fields.ptr, event.extra_fields.alloc_size
