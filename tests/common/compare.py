"""Comparison of results with eager PyTorch, and of memory between two ways to run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from wrapper_ir.support.collection import paused_collection


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


def peak_bytes(run: Callable[[], object], *, workspaces: bool = True) -> int:
    """Returns the peak bytes of the CPU allocator among its allocations during `run`.

    A free counts only if its allocation was made during `run`. The profiler keeps sizes of earlier profiles,
    so memory of another test, at a reused address, would count with its old size. Without `workspaces`,
    memory that an operator frees before it returns does not count.
    """
    changes = _memory_changes(run)
    inside = set() if workspaces else _workspaces(changes)
    live: dict[int, int] = {}
    held = peak = 0
    for change in changes:
        if change.nbytes <= 0:
            held -= live.pop(change.address, 0)
        elif change.order not in inside:
            live[change.address] = change.nbytes
            held += change.nbytes
            peak = max(peak, held)
    return peak


def temporary_bytes(run: Callable[[], object]) -> int:
    """Returns the peak of the bytes that `run` allocates from the CPU allocator, minus those that remain at
    the end. `run` keeps its results alive."""
    live: dict[int, int] = {}
    held = peak = 0
    for change in _memory_changes(run):
        if change.nbytes <= 0:
            held -= live.pop(change.address, 0)
        else:
            live[change.address] = change.nbytes
            held += change.nbytes
            peak = max(peak, held)
    return peak - held


def allocated(run: Callable[[], object]) -> list[int]:
    """The bytes of each request of `run` to the CPU allocator, operators' own included."""
    return [change.nbytes for change in _memory_changes(run) if change.nbytes > 0]


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    """One change by the CPU allocator; `operator` is the number of the running operator (0: none)."""

    time: int
    order: int
    address: int
    nbytes: int
    operator: int


def _workspaces(changes: Sequence[_Change]) -> set[int]:
    """Returns memory freed by the operator that allocated it, as the `order` of the request."""
    found: set[int] = set()
    asked: dict[int, _Change] = {}
    for change in changes:
        if change.nbytes > 0:
            asked[change.address] = change
            continue
        request = asked.pop(change.address, None)
        if request is not None and request.operator and request.operator == change.operator:
            found.add(request.order)
    return found


def _memory_changes(run: Callable[[], object]) -> list[_Change]:
    gc.collect()
    with (
        paused_collection(),  # else the peak depends on the number of objects before `run`
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile,
    ):
        run()
    return sorted(_allocations(profile.profiler.kineto_results.experimental_event_tree()))


# Any: the profiler's events have no public type.
def _allocations(events: list[Any]) -> Iterator[_Change]:
    """The changes by the CPU allocator in a tree of events. Of nested operators, the outermost one counts."""
    stack = [(event, 0) for event in reversed(events)]
    order = 0
    while stack:
        event, operator = stack.pop()
        order += 1
        if not operator and "::" in event.name and event.tag == torch._C._profiler._EventType.TorchOp:
            operator = order
        stack.extend([(child, operator) for child in reversed(event.children)])
        if event.tag == torch._C._profiler._EventType.Allocation and event.extra_fields.device.type == "cpu":
            fields = event.extra_fields
            yield _Change(event.start_time_ns, order, fields.ptr, fields.alloc_size, operator)
