"""Isolates a capture: sets Inductor's options, serializes captures, and restores all state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, partialmethod
from itertools import combinations
from typing import Any

import sympy
import torch
from torch._C import DispatchKey, _dispatch_tls_is_dispatch_key_included
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.utils import preserve_rng_state
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor import virtualized
from torch._ops import _pop_mode_from_pre_dispatch, mode_stack_state_for_pre_dispatch
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode, _push_mode
from torch.utils._sympy.functions import Identity, Max, Min

from inductor_frontend.devices.vector_isa import quick_checks
from inductor_frontend.export.fresh_fakes import fresh_fakes
from inductor_frontend.export.own_kernels import known_descriptors
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.templates import keeping_choices
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches, known_options
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    CLAMPED_SIZES,
    INDEX_VALUES,
    OVERLAP_IN_ITSELF,
    OVERLAPS,
    STRIDE_HINTS,
    TUNING_KEY,
    VIEW_STRIDES,
)


# Any: sympy's classes, which are untyped here.
def _evaluated(wrapped: Any, precision: int) -> object:
    """Evaluates the number in Inductor's wrapper of an index (`Identity`).

    Without it, sums of such numbers cannot be compared, and graphs with a padded relative position cannot be
    lowered.
    """
    return wrapped.args[0]._eval_evalf(precision)


def _stride_hints(
    self: object, plain: Callable[..., object], index: object, *args: object, **kwargs: object
) -> object:
    """Calls Inductor's function with an index without wrappers.

    A stride is a difference of two values of the index. With the wrappers, which `_evaluated` makes
    comparable, sympy takes 40 ms for each.
    """
    return plain(self, sympy.sympify(index).replace(Identity, lambda wrapped: wrapped), *args, **kwargs)


def _ordered(sizevars: Any, first: object, second: object) -> tuple[object, object] | None:
    """Returns two sizes, the smaller first; None if the order is unknown.

    No size exceeds `sys.maxsize`, which is the end of a slice without an end.
    """
    first, second = (sympy.sympify(x).subs(sizevars.inv_precomputed_replacements) for x in (first, second))
    for low, high in ((first, second), (second, first)):
        if high == sys.maxsize or sizevars.guard_or_false(sympy.Le(low, high)):
            return low, high
    return None


def _smaller(self: Any, first: object, second: object) -> object:
    ordered = _ordered(self, first, second)
    return Min(first, second) if ordered is None else ordered[0]  # type: ignore[no-untyped-call]  # torch's


def _larger(self: Any, first: object, second: object) -> object:
    ordered = _ordered(self, first, second)
    return Max(first, second) if ordered is None else ordered[1]  # type: ignore[no-untyped-call]  # torch's


def _overlapping(plain: Callable[..., set[int]], tensors: Sequence[torch.Tensor]) -> set[int]:
    """Returns torch's positions of overlapping tensors of one storage.

    If sizes are arbitrary, adds no guard: tensors then overlap unless one provably ends before the other
    begins.
    """
    if not symbolic_config.backed_size_oblivious:
        return plain(tensors)
    overlapping: set[int] = set()
    for (i, a), (j, b) in combinations(enumerate(tensors), 2):
        is_static = _is_static(a) and _is_static(b)
        if plain([a, b]) if is_static else not (_before(a, b) or _before(b, a)):
            overlapping |= {i, j}
    return overlapping


def _is_static(x: torch.Tensor) -> bool:
    return all(isinstance(n, int) for n in (*x.size(), *x.stride(), x.storage_offset()))


_OVERLAPS, _TOO_HARD = 1, 2
"""torch's results for a tensor that overlaps itself, and if it cannot tell."""


def _overlaps_itself(plain: Callable[[torch.Tensor], int], x: torch.Tensor) -> int:
    """Calls torch's function; if sizes are arbitrary, adds no guard, but still detects expanded
    dimensions."""
    if not symbolic_config.backed_size_oblivious or _is_static(x):
        return plain(x)
    # Comparing symbols would add a guard.
    expanded = [size for size, stride in zip(x.size(), x.stride()) if type(stride) is int and stride == 0]
    if any(type(size) is int and size > 1 for size in expanded):
        return _OVERLAPS
    return plain(x) if expanded else _TOO_HARD


def _before(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns whether `a` provably ends before `b` begins, if both have elements."""
    last = a.storage_offset() + sum((n - 1) * stride for n, stride in zip(a.size(), a.stride()))
    return statically_known_true((last + 1) * a.itemsize <= b.storage_offset() * b.itemsize)


def _view_strides(plain: Callable[..., object], *layouts: object, size_oblivious: bool = False) -> object:
    """Returns torch's strides of a view; if sizes are arbitrary, without a guard if the strides fit all
    sizes."""
    strides = plain(*layouts, True) if symbolic_config.backed_size_oblivious else None
    return plain(*layouts, size_oblivious) if strides is None else strides


@contextmanager
def _restored_modes() -> Iterator[None]:
    """Restores torch's stacks of dispatch modes, even if an interrupt hits the exit of a mode.

    Otherwise, all later traces of the process would pass through the remaining mode. Inductor's handlers are
    restored, too: it sets one before its `with` statement begins, so an interrupt in between would leave it.
    """
    before, handlers = _get_current_dispatch_mode_stack(), vars(virtualized.threadlocal)
    pre_dispatch = mode_stack_state_for_pre_dispatch()  # type: ignore[no-untyped-call]  # torch's
    count, set_before = pre_dispatch.count(), dict(handlers)
    try:
        yield
    finally:
        handlers.clear()
        handlers.update(set_before)
        # That stack is the process's: other threads may trace, and the key is of this thread.
        while pre_dispatch.count() > count and _dispatch_tls_is_dispatch_key_included(
            DispatchKey.PreDispatch
        ):
            _pop_mode_from_pre_dispatch()  # type: ignore[no-untyped-call]  # torch's
        if (after := _get_current_dispatch_mode_stack()) != before:
            for _ in after:
                _pop_mode()
            for mode in before:
                _push_mode(mode)


@contextmanager
def capture_session(options: CaptureOptions) -> Iterator[None]:
    """Holds Inductor's compile lock, and sets options and random state for one capture.

    All state is restored at the end, also after errors. Concurrent captures, and captures concurrent with
    torch.compile, run one after the other.
    """
    with ExitStack() as stack:
        stack.enter_context(compile_lock)
        stack.enter_context(_restored_modes())
        stack.enter_context(inductor_config.patch(known_options(inductor_patches(options), inductor_config)))
        stack.enter_context(functorch_config.patch(known_options(functorch_patches(), functorch_config)))
        stack.enter_context(
            replaced(
                TUNING_KEY.by(triton_hash_with_backend=lambda: ""),
                INDEX_VALUES.by(_eval_evalf=_evaluated),
                STRIDE_HINTS.by(stride_hints=partialmethod(_stride_hints, STRIDE_HINTS.own())),
                VIEW_STRIDES.by(_compute_stride=partial(_view_strides, VIEW_STRIDES.own())),
                CLAMPED_SIZES.by(evaluate_min=_smaller, evaluate_max=_larger),
                OVERLAPS.by(compute_overlapping_tensors=partial(_overlapping, OVERLAPS.own())),
                OVERLAP_IN_ITSELF.by(
                    _debug_has_internal_overlap=partial(_overlaps_itself, OVERLAP_IN_ITSELF.own())
                ),
            )
        )
        stack.enter_context(keeping_choices(options.matmuls == "candidates"))
        stack.enter_context(known_descriptors())
        stack.enter_context(fresh_fakes())
        stack.enter_context(quick_checks())
        stack.enter_context(preserve_rng_state())
        stack.enter_context(torch.no_grad())
        yield
