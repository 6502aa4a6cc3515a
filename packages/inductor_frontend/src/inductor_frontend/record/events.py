"""What is recorded while Inductor generates wrapper code: a closed union of small facts, in program order.

Events refer to Inductor's nodes. They are translated only when scheduling is over, because until then Inductor may
still remove buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sympy
from torch import fx
from torch._inductor import ir
from torch._inductor.codegen.common import WorkspaceArg
from torch._ops import OpOverload


@dataclass(frozen=True, slots=True)
class Allocate:
    """Storage for a buffer, at its first use."""

    buffer: ir.Buffer


@dataclass(frozen=True, slots=True)
class Reuse:
    """An in-place kernel: `new` takes over the storage of `old`, with its content."""

    old: ir.Buffer
    new: ir.Buffer


@dataclass(frozen=True, slots=True)
class Alias:
    """A buffer that is a part of another one, such as one input of a concatenation."""

    buffer: ir.Buffer
    view: ir.ReinterpretView


@dataclass(frozen=True, slots=True)
class DefineKernel:
    """A generated kernel: its name, its translation unit, and the declaration of its entry."""

    name: str
    source: str
    declaration: str


@dataclass(frozen=True, slots=True)
class DefineTriton:
    """A generated Triton kernel: its name and its module, decorated for Inductor's tuner."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class OperatorChoice:
    """An operator that computes what templates do, into one of its arguments; how many tensors it takes besides, and its
    other arguments by name."""

    overload: OpOverload
    tensors: int
    kwargs: Mapping[str, object]


def written_arguments(overload: OpOverload) -> list[str]:
    """The arguments that an operator writes to."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


@dataclass(frozen=True, slots=True)
class DefineMulti:
    """Triton kernels that one is chosen from, by name. All take the arguments of a call, but for the last of them:
    there, each in turn has as many numbers of its grid as `own`; after these come the tensors of `operator`. With `hints`,
    kernels are instances of templates, each perhaps made for sizes of this number, and each of which `takes` those at some
    positions: not all need scratch memory."""

    name: str
    kernels: tuple[str, ...]
    own: int = 0
    hints: tuple[int | None, ...] = ()
    operator: OperatorChoice | None = None
    takes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A buffer, or scratch memory, that a kernel is given: as its address or, if it has one element, by value."""

    name: str


LaunchArg: TypeAlias = BufferArg | ir.IRNode | sympy.Expr | int | float
"""What a kernel call gives to one parameter."""


@dataclass(frozen=True, slots=True)
class CallKernel:
    """A kernel call. `args` are in the order of Inductor's signature; then comes what only the grid needs. `produced` are
    the buffers whose whole content this kernel makes; `origins` the source nodes; `inplace` pairs of buffers that may be the
    same bytes, the one that is read first. `written` are the parameters that a model's own kernel writes to, None for
    Inductor's kernels; `changed` the buffers that a template writes to besides what it makes."""

    name: str
    args: tuple[LaunchArg, ...]
    produced: frozenset[str]
    origins: tuple[fx.Node, ...]
    written: frozenset[str] | None = None
    changed: frozenset[str] = frozenset()
    inplace: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AllocateWorkspace:
    """Scratch memory of the kernel that is called next."""

    workspace: WorkspaceArg


@dataclass(frozen=True, slots=True)
class FinishReduction:
    """Partial results of the kernel that was called last become the buffer `name`: of its scratch memory `workspace`, the
    `part`-th matrix of `splits` rows of `width` elements, float32, is reduced over its rows by `reduction` (sum, prod)."""

    name: str
    workspace: str
    part: int
    splits: sympy.Expr
    width: sympy.Expr
    reduction: str


@dataclass(frozen=True, slots=True)
class CallNode:
    """An extern node: a library call, a copy, a check, a host computation."""

    node: ir.ExternKernel


@dataclass(frozen=True, slots=True)
class OnStream:
    """What follows goes to this stream: the number that it has in the graph, 0 for the current one."""

    stream: int


@dataclass(frozen=True, slots=True)
class DefineSize:
    """A size computed once for several kernels."""

    symbol: sympy.Symbol
    expr: sympy.Expr


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A check of an input's sizes and strides, before its first use."""

    name: str


@dataclass(frozen=True, slots=True)
class AlignInput:
    """An input is replaced by an aligned copy where it is not aligned."""

    name: str


Event = (
    Allocate
    | Reuse
    | Alias
    | DefineKernel
    | DefineTriton
    | DefineMulti
    | CallKernel
    | AllocateWorkspace
    | FinishReduction
    | CallNode
    | OnStream
    | DefineSize
    | CheckInput
    | AlignInput
)
