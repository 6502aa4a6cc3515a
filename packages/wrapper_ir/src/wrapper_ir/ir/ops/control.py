"""Structured control flow. Callees are functions of the program, isolated: they see only their parameters,
constants, and the symbols they list as captured.
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
"""What calls of functions give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(OpBase):
    """Calls one of `branches` with `args`.

    `index` is a bool, of two branches: the first where it is true, the second where it is false; or an int, the
    position of the branch; or a tensor that holds one of these as its only element. An index that is the position of no
    branch raises ExecutionError WIR932 when the program runs.
    An argument whose parameter is owned in a branch is moved into it; ownership must be the same in all branches.
    Text: `%r = cond s0 > 4 then @t else @f (%a, s0) : f32[8]` for a bool, `%r = switch %i [@a, @b, @c] (%a) : f32[8]`
    for an int.
    """

    syntax: ClassVar[str] = "{results} = switch {index} [{branches}] ({args})< : {results:type}>"

    index: SingleArg
    branches: Callees
    args: Args
    results: Defs[Result]

    def effects(self, context: EffectContext) -> Effects:
        """Whatever any branch does with its arguments."""
        found = call_effects(self.results, self.args, self.branches, context)
        index = tensors_in((self.index,))
        return found._replace(reads=(*index, *found.reads)) if index else found


def is_two_way(op: Switch) -> bool:
    """Whether the index of a switch is a bool."""
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

    Parameters of both functions are borrowed: the loop itself frees what a trip carried after the next body call,
    never the initial values. Results are fresh also when no trip is made (initial values are then cloned). With
    `stacked`, the results are those of every trip, stacked along a new first dimension (of size 1, holding the
    initial values, where no trip is made).
    Text: `%r = while @c do @b carried(%x) captured(%w) : f32[8]`, `%r = while @c do @b carried(%x) stacked : f32[3, 8]`.
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
        """Carried values are also read by the loop itself, which clones them when it makes no trip."""
        args = (*self.carried, *self.captured)
        found = call_effects((), args, (self.cond_fn, self.body_fn), context)
        reads, fresh = (*tensors_in(self.carried), *found.reads), tuple(filter(is_tensor, self.results))
        return found._replace(reads=reads, fresh=fresh, moves=())


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubgraph(OpBase):
    """Calls a function of the program. Arguments of owned parameters are moved.

    Text: `%r0, %r1 = call_subgraph @sub(%a, s0) : f32[8], f32[4]`.
    """

    syntax: ClassVar[str] = "{results} = call_subgraph {function}({args})< : {results:type}>"

    function: Callee
    args: Args
    results: Defs[Result]

    def effects(self, context: EffectContext) -> Effects:
        """Whatever the function does with its arguments."""
        return call_effects(self.results, self.args, (self.function,), context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(OpBase):
    """Ends a function, once, as its last op. Fresh storages are moved to the caller.

    Text: `return %buf1, 2*s0, none`.
    """

    syntax: ClassVar[str] = "return< {values}>"

    values: Args = ()

    def effects(self, context: EffectContext) -> Effects:
        """Moves what the function owns; borrowed parameters and constants stay where they are (see `aliasing`)."""
        return Effects(moves=tensors_in(self.values))


ControlOp = Switch | WhileLoop | CallSubgraph | Return
