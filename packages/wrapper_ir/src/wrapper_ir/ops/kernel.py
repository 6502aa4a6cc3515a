"""Ops that run kernels and library operators."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.expr import Expr
from wrapper_ir.ops.base import Args, Def, Kwargs, OpBase, OptionalDef, Use

__all__ = ["CallExtern", "Launch", "Unpack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(OpBase):
    """Launches the kernel named `kernel` with `args` in the order of its parameters.

    `extents` gives, for each pointer parameter in order, how many bytes from the tensor's first element the kernel
    may touch (empty: the extent of each tensor's layout). `grid` has the numbers that the kernel's grid is computed
    from besides its arguments: one for each of a Triton kernel's `grid_params`; for kernels of plug-ins, it is the
    launch grid itself. All pointer arguments are on one device, which is where the kernel runs.
    Text: `launch @cpp_fused_relu_0(%buf0, %buf1, s0 * 64)`, `launch @k(%a, %b) grid(s0) stream(1)`,
    `launch @k(%a, %b) extents(256, 128)`.
    """

    kernel: str
    args: Args
    extents: tuple[Expr, ...] = ()
    grid: tuple[Expr, ...] = ()
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExtern(OpBase):
    """Calls the operator declared under `target`; its schema decides what is read, written and aliased.

    `result` is one tensor or scalar, a `TupleType` value for several outputs, or None where nothing is kept
    (out variants, mutating operators).
    Text: `call aten::addmm.out(%b, %x, %w, out=%buf0)`, `%t = call aten::topk(%x, 5) : results`.
    """

    target: str
    args: Args
    kwargs: Kwargs = ()
    result: OptionalDef = None
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpack(OpBase):
    """Takes the value at `path` (indices and keys, may be empty) out of a nested result.

    Text: `%buf1 = unpack %t[0] : f32[8, 5]`, `%y = unpack %t : f32[8]`.
    """

    source: Use
    path: tuple[int | str, ...]
    result: Def
