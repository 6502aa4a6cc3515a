"""Structured control flow.

Callees are isolated functions of the program: they see only their parameters, constants, and captured
symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.ir.ops.base import Args, Callee, Callees, Defs, OpBase, SingleArg
from wrapper_ir.ir.ops.call_effects import call_effects, tensors_in
from wrapper_ir.ir.ops.effects import EffectContext, Effects
from wrapper_ir.ir.types import DType, OpaqueType, ScalarType, TensorType
from wrapper_ir.ir.values import Value, is_tensor

Result = TensorType | ScalarType | OpaqueType
"""Types of results of function calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(OpBase):
    """Calls one of `branches` with `args`.

    `index` is a bool, an int, or a one-element tensor of either. True selects the first of two branches,
    false the second; an int is the position of the branch. A position out of range raises ExecutionError
    WIR932 at run time. An argument is moved if the branches own its parameter; ownership must be the same in
    all branches.

    Text: `%r = cond s0 > 4 then @t else @f (%a, s0) : f32[8]` for a bool,
    `%r = switch %i [@a, @b, @c] (%a) : f32[8]` for an int.
    """

    syntax: ClassVar[str] = "{results} = switch {index} [{branches}] ({args})< : {results:type}>"

    index: SingleArg
    branches: Callees
    args: Args
    results: Defs[Result]

    def effects(self, context: EffectContext) -> Effects:
        """Combines the effects of all branches."""
        effects = call_effects(self.results, self.args, self.branches, context)
        index = tensors_in((self.index,))
        return effects._replace(reads=(*index, *effects.reads)) if index else effects


def is_two_way(op: Switch) -> bool:
    """Returns whether the index of a switch is a bool."""
    match op.index:
        case Expr() as e:
            return e.kind is SymKind.BOOL
        case Value(type=ScalarType(SymKind.BOOL) | TensorType(DType.BOOL)):
            return True
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoop(OpBase):
    """Calls `body_fn(carried + captured)` while `cond_fn(carried + captured)` is true.

    Parameters of both functions are borrowed. The loop frees the values that an iteration carried after the
    next call of the body, but never the initial values. Results are always fresh: without an iteration, they
    are clones of the initial values. With `stacked`, each result stacks the values of all iterations along a
    new first dimension, which without an iteration has size 1 and contains the initial values.

    Text: `%r = while @c do @b carried(%x) captured(%w) : f32[8]`,
    `%r = while @c do @b carried(%x) stacked : f32[3, 8]`.
    """

    syntax: ClassVar[str] = (
        "{results} = while {cond_fn} do {body_fn} carried({carried})< captured({captured})>< {stacked}>"
        "< : {results:type}>"
    )

    cond_fn: Callee
    body_fn: Callee
    carried: Args
    captured: Args = ()
    results: Defs[Result]
    stacked: bool = False

    def effects(self, context: EffectContext) -> Effects:
        """Combines the effects of both functions. The loop itself reads carried values to clone them."""
        args = (*self.carried, *self.captured)
        effects = call_effects((), args, (self.cond_fn, self.body_fn), context)
        reads, fresh = (*tensors_in(self.carried), *effects.reads), tuple(filter(is_tensor, self.results))
        return effects._replace(reads=reads, fresh=fresh, moves=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubgraph(OpBase):
    """Calls a function of the program. Arguments for owned parameters are moved.

    Text: `%r0, %r1 = call_subgraph @sub(%a, s0) : f32[8], f32[4]`.
    """

    syntax: ClassVar[str] = "{results} = call_subgraph {function}({args})< : {results:type}>"

    function: Callee
    args: Args
    results: Defs[Result]

    def effects(self, context: EffectContext) -> Effects:
        """Applies the function's summary to the arguments."""
        return call_effects(self.results, self.args, (self.function,), context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(OpBase):
    """Returns from a function; the last op of every function. Fresh storages are moved to the caller.

    Text: `return %buf1, 2*s0, none`.
    """

    syntax: ClassVar[str] = "return< {values}>"

    values: Args = ()

    def effects(self, context: EffectContext) -> Effects:
        """Moves the storages that the function owns, not those of borrowed parameters and constants."""
        return Effects(moves=tensors_in(self.values))


ControlOp = Switch | WhileLoop | CallSubgraph | Return
