"""Steps of structured control flow. Callees are plans of functions, with steps of every family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir_lowering.persistent import PersistentMemory
from wrapper_ir_lowering.steps.base import StepBase
from wrapper_ir_lowering.steps.calls import CallStep
from wrapper_ir_lowering.steps.checks import CheckStep
from wrapper_ir_lowering.steps.debug import DebugStep
from wrapper_ir_lowering.steps.memory import MemoryStep
from wrapper_ir_lowering.steps.placement import PlacementStep
from wrapper_ir_lowering.steps.symbolic import Define


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(StepBase):
    """Calls a function. `moved` are the names that end here: the callee takes over their memory and frees it.

    Text: `%y = call_function @sub(%x, s0) moves(%x)`.
    """

    syntax: ClassVar[str] = "<{results} = >call_function {function}({args})< moves({moved})>"

    function: FunctionPlan
    args: tuple[ir.Arg, ...]
    results: tuple[ir.Value[ir.Type], ...]
    moved: tuple[ir.Value[ir.Type], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(StepBase):
    """Calls one of `branches`.

    With `is_two_way`, the index is a bool, and the first branch is for true. Otherwise it is the position of
    a branch; any other index fails (WIR932). With `reads_index`, the index is the only element of a tensor.
    It is read before anything is moved. Text: `%y = switch s0 > 2 [@then, @else] (%x)`.
    """

    syntax: ClassVar[str] = "<{results} = >switch {index} [{branches}] ({args})< moves({moved})>"

    index: ir.Arg
    branches: tuple[FunctionPlan, ...]
    args: tuple[ir.Arg, ...]
    results: tuple[ir.Value[ir.Type], ...]
    is_two_way: bool
    reads_index: bool
    moved: tuple[ir.Value[ir.Type], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(StepBase):
    """Calls `body` on `carried` and `captured` while `condition` returns true.

    Results have separate memory, even without any iteration. `fresh` tells, for each, whether the body is
    known to return such memory, so that only initial values must be copied. `constants` are those that the
    body uses and whose memory it may return. With `stacked`, the results are those of all iterations,
    stacked. Text: `%y = loop @cond do @body carried(%x) captured(%w)`.
    """

    syntax: ClassVar[str] = (
        "<{results} = >loop {condition} do {body} carried({carried})< captured({captured})>< {stacked}>"
    )

    condition: FunctionPlan
    body: FunctionPlan
    carried: tuple[ir.Arg, ...]
    captured: tuple[ir.Arg, ...]
    results: tuple[ir.Value[ir.Type], ...]
    fresh: tuple[bool, ...]
    constants: tuple[ir.Value[ir.Type], ...] = ()
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(StepBase):
    """Ends a function. Every name ends with it. Text: `return %y, 2*s0`."""

    syntax: ClassVar[str] = "return< {values}>"

    values: tuple[ir.Arg, ...] = ()


Step = MemoryStep | CallStep | CheckStep | Define | DebugStep | Call | Switch | Loop | Return | PlacementStep
"""The closed set of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFacts:
    """Facts for capturing a replayable function: its device, and positions of its parameters.

    They are the positions of tensors, of those that are bound by address, of those that are written, and of
    those that are moved. Other parameters are part of a graph's key, like captured symbols.
    """

    device: ir.Device
    tensors: tuple[int, ...]
    static: tuple[int, ...]
    written: tuple[int, ...]
    given: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionPlan:
    """A function's steps, in order.

    `windows` maps values to the numbers of their windows of constants in the plan; `replay` has the facts
    for capturing it.
    """

    function: ir.Function
    steps: tuple[Step, ...]
    is_main: bool = False
    windows: Mapping[ir.Value[ir.Type], int] = field(default_factory=dict)
    persistent: PersistentMemory = field(default_factory=PersistentMemory)
    replay: ReplayFacts | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.name
