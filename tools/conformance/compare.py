"""Observes the results of a call, and compares those of two calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tools.conformance.cases import Call, CaseId

UNDEFINED_VALUES = frozenset(
    {
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
        "resize_", "resize_as_",
    }
)  # fmt: skip
"""Operators with uninitialised results: only dtypes, sizes and devices are compared."""


class Mismatch(AssertionError):
    """Two calls gave different results."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The results of a call, and its inputs after the call."""

    results: Any  # Any: an operator's results are its own
    inputs: tuple[Tensor, ...]


def observe(call: Call, run: Callable[..., Any], seed: int) -> Observed:
    """Runs on fresh copies of the inputs, from a fixed random state, without gradients."""
    inputs = tuple(_fresh(t) for t in call.inputs)
    torch.manual_seed(seed)
    with torch.no_grad():
        return Observed(run(*inputs), inputs)


def is_random(case: CaseId, call: Call, eager: Observed) -> bool:
    """Returns whether eager depends on the random state. `eager` has its values for the case's seed."""
    if case.op in UNDEFINED_VALUES:
        return False
    try:
        assert_same(observe(call, call.function, case.seed + 1), eager, call)
    except Mismatch:
        return True
    return False


def _fresh(tensor: Tensor) -> Tensor:
    """Copies a tensor with the same strides and offset into a separate storage, also with overlapping
    elements.
    """
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return torch.clone(tensor)
    storage = tensor.untyped_storage().clone()  # type: ignore[no-untyped-call]  # torch's
    with torch.no_grad():
        bare = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return bare.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def assert_same(got: Observed, want: Observed, call: Call, *, values: bool = True) -> None:
    """Same structure, dtypes, devices and sizes, elements within tolerance (unless not `values`), and the
    same changes of inputs. Raises Mismatch.
    """
    _same_trees("result", got.results, want.results, call, values)
    _same_trees("input after the call", list(got.inputs), list(want.inputs), call, values)


def _same_trees(what: str, got: Any, want: Any, call: Call, values: bool) -> None:
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    if got_spec != want_spec:
        raise Mismatch(f"{what}: structure {got_spec}, expected {want_spec}")
    for number, (a, b) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            _same_tensors(f"{what} {number}", a, b, call.tolerances, values)
        elif type(a) is not type(b) or not (a == b or (a != a and b != b)):
            raise Mismatch(f"{what} {number}: {a!r}, expected {b!r}")


def _same_tensors(
    what: str, got: Tensor, want: Tensor, tolerances: tuple[float, float] | None, values: bool
) -> None:
    if not values:
        a, b = ((t.dtype, t.size(), t.device) for t in (got, want))
        if a != b:
            raise Mismatch(f"{what}: {a}, expected {b}")
        return
    inexact = want.is_floating_point() or want.is_complex()
    rtol, atol = tolerances if tolerances is not None and inexact else (None, None)
    try:
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise Mismatch(f"{what}: {error}") from error
