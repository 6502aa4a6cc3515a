"""Steps: each appends a few ops to a random function, or nothing where there is nothing to work on."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.testing.steps_checks import check, debug, define, finite, profile
from wrapper_ir.testing.steps_devices import (
    collective,
    foreign,
    memory_pool,
    randomness,
    recordable,
    streams,
    triton,
)
from wrapper_ir.testing.steps_kernels import (
    add,
    call_lists,
    call_nonzero,
    call_out,
    call_relu,
    call_reshape,
    call_topk,
    probe,
    relu,
    scale,
)
from wrapper_ir.testing.steps_memory import align, convert, fill, other_device, pool, reuse, view, workspace
from wrapper_ir.testing.world import World

__all__ = ["ACCELERATOR_STEPS", "CALLED_STEPS", "STEPS"]

Step = Callable[[World], None]

STEPS: tuple[Step, ...] = (
    fill,
    workspace,
    pool,
    convert,
    align,
    view,
    reuse,
    relu,
    add,
    scale,
    probe,
    call_relu,
    call_out,
    call_lists,
    call_topk,
    call_nonzero,
    call_reshape,
    define,
    check,
    finite,
    profile,
    debug,
)
"""Steps that a CPU can run."""

CALLED_STEPS: tuple[Step, ...] = tuple(s for s in STEPS if s not in (define, debug))
"""Steps for functions that may be called more than once in an activation of another."""

ACCELERATOR_STEPS: tuple[Step, ...] = (
    other_device,
    streams,
    memory_pool,
    recordable,
    foreign,
    triton,
    collective,
    randomness,
)
"""Steps that need devices, processes or plug-ins."""
