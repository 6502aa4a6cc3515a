"""Ops that run kernels and library operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.ops.base import (
    Args,
    Def,
    KernelName,
    Kwargs,
    OpBase,
    OperatorName,
    OptionalDef,
    Stream,
    Use,
)
from wrapper_ir.ir.ops.call_effects import operator_effects, tensors_in, unknown_effects, values_at
from wrapper_ir.ir.ops.effects import EffectContext, Effects, EffectSpec, aliases
from wrapper_ir.ir.types import OpaqueType, ScalarType, TensorType, TupleType

Result = TensorType | ScalarType | TupleType | OpaqueType
"""Types of results of library operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(OpBase):
    """Launches the kernel named `kernel` with `args` in the order of its parameters.

    `extents` has for each pointer parameter, in order, the bytes from the tensor's first element on that the
    kernel may access. If empty, they are the extents of the tensors' layouts. `grid` has one number for each
    of a Triton kernel's `grid_params`; for kernels of plug-ins, it is the launch grid itself. All pointer
    arguments are on one device, on which the kernel runs.

    Text: `launch @cpp_fused_relu_0(%buf0, %buf1, 64*s0)`, `launch @k(%a, %b) grid(s0) stream(1)`,
    `launch @k(%a, %b) extents(256, 128)`.
    """

    syntax: ClassVar[str] = "launch {kernel}({args})< grid({grid})>< extents({extents})>< stream({stream})>"

    kernel: KernelName
    args: Args
    extents: tuple[Expr, ...] = ()
    grid: tuple[Expr, ...] = ()
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Reads and writes the arguments as the kernel's parameters declare."""
        access, args = context.access(self.kernel), self.args
        if access is None or len(args) != access.count:
            tensors = tensors_in(args)
            return Effects(tensors, tensors)
        return Effects(values_at(args, access.reads), values_at(args, access.writes))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExtern(OpBase):
    """Calls the operator declared as `target`; its schema determines reads, writes and aliases.

    `result` is one tensor or scalar, a `TupleType` value for several outputs, or None if the outputs are not
    used (out variants, mutating operators).

    Text: `call aten::addmm.out(%b, %x, %w, out=%buf0)`, `%t = call aten::topk(%x, 5) : results`.
    """

    syntax: ClassVar[str] = "{result} = call {target}({args}, {kwargs})< stream({stream})>< : {result:type}>"

    target: OperatorName
    args: Args
    kwargs: Kwargs = ()
    result: OptionalDef[Result] = None
    stream: Stream = 0

    def effects(self, context: EffectContext) -> Effects:
        """Derives the effects from the operator's schema and tags."""
        info = context.operator(self.target)
        if info is None:
            return unknown_effects(self.args, self.kwargs, () if self.result is None else (self.result,))
        return operator_effects(self.args, self.kwargs, self.result, info)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack(OpBase):
    """Extracts the value at `path` (indices and keys, may be empty) from a nested result.

    Text: `%buf1 = unpack %t[0] : f32[8, 5]`, `%y = unpack %t : f32[8]`.
    """

    syntax: ClassVar[str] = "{result} = unpack {source}{path} : {result:type}"
    effect_spec: ClassVar[EffectSpec] = aliases("result", "source")

    source: Use[TupleType]
    path: tuple[int | str, ...]
    result: Def[Result]


KernelOp = Launch | CallExtern | Unpack
