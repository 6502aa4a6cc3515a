"""What an emitter may choose about the plan that it is given."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweringOptions:
    """`assertions` are the program's own checks; `check_results` holds what operators return against their declared
    layouts. `fuse_views` allocates a storage as its one view. `hoist_windows` makes windows of constants when the program is
    loaded. `persistent_buffers` keeps the memory of intermediate results of fixed sizes from call to call; `keep_windows` keeps
    the tensors over it alone, for planned programs on a CPU, and each call allocates the memory. `join_waits` makes one step of a collective that is
    waited for before anything else is queued, and its waits. `guarded` is what a
    call need not check, `operators` which operators a program may call."""

    assertions: bool = True
    check_results: bool = True
    fuse_views: bool = True
    hoist_windows: bool = True
    persistent_buffers: bool = False
    keep_windows: bool = False
    join_waits: bool = False
    guarded: ir.Guarded = ir.NOT_GUARDED
    operators: OperatorPolicy = DEFAULT_OPERATORS
