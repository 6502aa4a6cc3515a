"""Collectives: started by one op, in flight until waited for."""

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
    """Starts an operator among the processes of a group, and goes on while it works. One result a tensor that the
    operator returns (a list of tensors too); each is in flight until its `Wait`.

    The bytes of a result in flight, and of an argument that the operator writes, are the operator's: no op reads,
    writes, moves or frees them, under whatever name. An argument that it only reads may be read meanwhile, and not
    written, moved or freed. Where a list of tensors comes back as a list, the i-th argument is held until the i-th
    result was waited for; other arguments until all results were. A result over an argument (the operator works in
    place) has that argument's type.

    `group` is the name under which each process has registered the group; the operator gets the same name as an
    argument. Processes of a group start its collectives in the same order.

    Text: `%h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[8]`,
    `%a, %b = collective lib::gather([%x, %y], "tp") group("tp") : f32[16], f32[4]`.
    """

    syntax: ClassVar[str] = (
        "{results} = collective {target}({args}, {kwargs}) group({group})< stream({stream})>< : {results:type}>"
    )

    target: OperatorName
    args: Args
    results: Defs[TensorType]
    group: str
    kwargs: Kwargs = ()
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Each result stands for one return, or for one element of the list that is returned."""
        info = context.operator(self.target)
        if info is None:
            found = unknown_effects(self.args, self.kwargs, self.results, EffectClass.COLLECTIVE)
            return found._replace(holds=tuple((r, t) for r in self.results for t in found.reads))
        return collective_effects(self.args, self.kwargs, self.results, info)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(OpBase):
    """Waits until a result of a collective is there; `result` is the finished tensor: same type, same storage.

    Text: `%y = wait %h : f32[8]`.
    """

    syntax: ClassVar[str] = "{result} = wait {source} : {result:type}"
    effect_spec: ClassVar[EffectSpec] = (
        reads("source") | writes("source") | aliases("result", "source") | has(EffectClass.COLLECTIVE)
    )

    source: Use[TensorType]
    result: Def[TensorType]


CollectiveOp = CollectiveStart | Wait
