"""Events that are recorded while Inductor generates wrapper code: a closed union, in program order.

Events refer to Inductor's nodes. They are translated after scheduling, because Inductor may remove buffers
until then.
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
    """Allocates storage for a buffer, at its first use."""

    buffer: ir.Buffer


@dataclass(frozen=True, slots=True)
class Reuse:
    """Transfers the storage of `old` to `new`, including its content (an in-place kernel)."""

    old: ir.Buffer
    new: ir.Buffer


@dataclass(frozen=True, slots=True)
class Alias:
    """A buffer that is part of another buffer, such as one input of a concatenation."""

    buffer: ir.Buffer
    view: ir.ReinterpretView


@dataclass(frozen=True, slots=True)
class DefineKernel:
    """A generated C++ kernel: its name, its translation unit, and the declaration of its entry point."""

    name: str
    source: str
    declaration: str


@dataclass(frozen=True, slots=True)
class DefineTriton:
    """A generated Triton kernel: its name and its module, with the decorator of Inductor's autotuner."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class OperatorChoice:
    """An operator that computes the same as a set of templates, and writes the result to one of its
    arguments.

    `tensors` is the number of its input tensors; `kwargs` are its other arguments by name.
    """

    overload: OpOverload
    tensors: int
    kwargs: Mapping[str, object]


def written_arguments(overload: OpOverload) -> list[str]:
    """Returns the names of the arguments that an operator writes."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


@dataclass(frozen=True, slots=True)
class DefineMulti:
    """Triton kernels, by name, from which one is selected.

    All accept the arguments of a call except the last ones. Those contain `own` numbers of the grid for each
    kernel in turn, then the tensors of `operator`. If `hints` is not empty, the kernels are instances of
    templates: `hints` has the size that each was specialized for, or None. `takes` has the positions of the
    arguments that each accepts, since not all need scratch memory.
    """

    name: str
    kernels: tuple[str, ...]
    own: int = 0
    hints: tuple[int | None, ...] = ()
    operator: OperatorChoice | None = None
    takes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A buffer or scratch memory, passed to a kernel by address, or by value if it has one element."""

    name: str


LaunchArg: TypeAlias = BufferArg | ir.IRNode | sympy.Expr | int | float
"""Argument of a kernel call for one parameter."""


@dataclass(frozen=True, slots=True)
class CallKernel:
    """A kernel call. `args` are in the order of Inductor's signature, followed by arguments that only the
    grid needs.

    `produced` are the buffers that this kernel writes completely; `origins` the source nodes. `inplace` has
    pairs of buffers that may share their memory, the one that is read first. `writes` are the parameters
    that a model's own kernel writes; None for Inductor's kernels. `changed` are the buffers that a template
    mutates besides `produced`.
    """

    name: str
    args: tuple[LaunchArg, ...]
    produced: frozenset[str]
    origins: tuple[fx.Node, ...]
    writes: frozenset[str] | None = None
    changed: frozenset[str] = frozenset()
    inplace: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class AllocateWorkspace:
    """Allocates scratch memory of the next kernel."""

    workspace: WorkspaceArg


@dataclass(frozen=True, slots=True)
class FinishReduction:
    """Reduces partial results of the last kernel to the buffer `name`.

    The scratch memory `workspace` contains float32 matrices of `splits` rows of `width` elements. The matrix
    of index `part` is reduced over its rows by `reduction` (sum, prod).
    """

    name: str
    workspace: str
    part: int
    splits: sympy.Expr
    width: sympy.Expr
    reduction: str


@dataclass(frozen=True, slots=True)
class CallNode:
    """An extern node: a library call, a copy, a check or a computation on the host."""

    node: ir.ExternKernel


@dataclass(frozen=True, slots=True)
class OnStream:
    """Selects the stream of the following events by its number in the graph; 0: the current stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class DefineSize:
    """A size that is computed once for several kernels."""

    symbol: sympy.Symbol
    expr: sympy.Expr


@dataclass(frozen=True, slots=True)
class CheckInput:
    """Checks an input's sizes and strides, before its first use."""

    name: str


@dataclass(frozen=True, slots=True)
class AlignInput:
    """Replaces an input by an aligned copy if it is not aligned."""

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
