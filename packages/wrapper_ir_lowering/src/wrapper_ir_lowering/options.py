"""Options of an emitter for the plan that it receives."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweringOptions:
    """Options of `lower`.

    `assertions` keeps the program's own checks; `check_results` checks what operators return against the
    declared layouts. `fuse_views` allocates a storage as its only view. `hoist_windows` creates windows of
    constants when the program is loaded. `persistent_buffers` keeps the memory of intermediate results of
    fixed sizes from call to call. `keep_windows` keeps only the tensors over it, for planned programs on a
    CPU; each call allocates the memory. `join_waits` combines a collective with its waits if no other work is
    queued in between. `guarded` lists what a call need not check, `operators` the operators that a program
    may call.
    """

    assertions: bool = True
    check_results: bool = True
    fuse_views: bool = True
    hoist_windows: bool = True
    persistent_buffers: bool = False
    keep_windows: bool = False
    join_waits: bool = False
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS
