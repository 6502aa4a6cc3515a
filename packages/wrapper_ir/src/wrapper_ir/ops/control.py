"""Structured control flow. Callees are functions of the program, isolated: they see only their parameters,
constants, and the symbols they list as captured.
"""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ops.base import Args, Defs, OpBase, SingleArg

__all__ = ["CallSubgraph", "Conditional", "Return", "WhileLoop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional(OpBase):
    """Calls `true_fn` or `false_fn` with `args`; the predicate is a one-element tensor or a boolean expression.

    An argument whose parameter is owned in a branch is moved into it; ownership must be the same in both branches.
    Text: `%r = cond %p then @t else @f (%a, s0) : f32[8]`.
    """

    predicate: SingleArg
    true_fn: str
    false_fn: str
    args: Args
    results: Defs


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoop(OpBase):
    """Calls `body_fn(carried + captured)` while `cond_fn(carried + captured)` is true.

    Parameters of both functions are borrowed: the loop itself frees what a trip carried after the next body call,
    never the initial values. Results are fresh also when no trip is made (initial values are then cloned). With
    `stacked`, the results are those of every trip, stacked along a new first dimension (of size 1, holding the
    initial values, where no trip is made).
    Text: `%r = while @c do @b carried(%x) captured(%w) : f32[8]`, with `stacked` before the colon.
    """

    cond_fn: str
    body_fn: str
    carried: Args
    captured: Args
    results: Defs
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubgraph(OpBase):
    """Calls a function of the program. Arguments of owned parameters are moved.

    Text: `%r0, %r1 = call_subgraph @sub(%a, s0) : f32[8], f32[4]`.
    """

    function: str
    args: Args
    results: Defs


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(OpBase):
    """Ends a function, once, as its last op. Fresh storages are moved to the caller.

    Text: `return %buf1, s0 * 2, none`.
    """

    values: Args
