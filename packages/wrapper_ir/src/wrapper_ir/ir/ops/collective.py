"""Collectives: one op starts them, and they are in flight until another op waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.ops.base import Args, Def, Defs, Kwargs, OpBase, OperatorName, Stream, Use
from wrapper_ir.ir.ops.call_effects import collective_effects, unknown_effects
from wrapper_ir.ir.ops.effects import (
    EffectClass,
    EffectContext,
    Effects,
    EffectSpec,
    aliases,
    has,
    reads,
    writes,
)
from wrapper_ir.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveStart(OpBase):
    """Starts an operator among the processes of a group without waiting for it.

    There is one result per returned tensor, also if the operator returns a list. Each result is in flight
    until its `Wait`.

    The operator owns the bytes of a result in flight and of each argument that it writes. No op reads,
    writes, moves or frees these bytes under any name. An argument that the operator only reads may be read
    meanwhile, but not written, moved or freed. If the operator takes a list of tensors and returns a list,
    the i-th argument is in use until the wait for the i-th result. Other arguments are in use until the waits
    for all results. A result over an argument (the operator works in place) has that argument's type.

    `group` is the name under which each process registered the group; the operator receives the same name as
    an argument. Processes of a group start its collectives in the same order.

    Text: `%h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[8]`, `%a, %b =
    collective lib::gather([%x, %y], "tp") group("tp") : f32[16], f32[4]`.
    """

    syntax: ClassVar[str] = (
        "{results} = collective {target}({args}, {kwargs}) group({group})< stream({stream})>"
        "< : {results:type}>"
    )

    target: OperatorName
    args: Args
    results: Defs[TensorType]
    group: str
    kwargs: Kwargs = ()
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Maps each result to one return, or to one element of the returned list."""
        info = context.operator(self.target)
        if info is None:
            effects = unknown_effects(self.args, self.kwargs, self.results, EffectClass.COLLECTIVE)
            return effects._replace(holds=tuple((r, t) for r in self.results for t in effects.reads))
        return collective_effects(self.args, self.kwargs, self.results, info)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(OpBase):
    """Waits for one result of a collective. `result` is the finished tensor, with the same type and storage.

    Text: `%y = wait %h : f32[8]`.
    """

    syntax: ClassVar[str] = "{result} = wait {source} : {result:type}"
    effect_spec: ClassVar[EffectSpec] = (
        reads("source") | writes("source") | aliases("result", "source") | has(EffectClass.COLLECTIVE)
    )

    source: Use[TensorType]
    result: Def[TensorType]


CollectiveOp = CollectiveStart | Wait
