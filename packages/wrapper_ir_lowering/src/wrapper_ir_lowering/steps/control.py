"""Steps of structured control flow. Callees are plans of functions, which hold steps of every family."""

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
    """Calls a function. `moved` are the names that end here: their memory is handed to the callee, which ends it.
    Text: `%y = call_function @sub(%x, s0) moves(%x)`."""

    syntax: ClassVar[str] = "<{results} = >call_function {function}({args})< moves({moved})>"

    function: FunctionPlan
    args: tuple[ir.Arg, ...]
    results: tuple[ir.Value[ir.Type], ...]
    moved: tuple[ir.Value[ir.Type], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(StepBase):
    """Calls one of `branches`. Where `is_two_way`, the index is a bool, the first branch is for true; else it is the
    position of a branch, and any other fails (WIR932). Where `reads_index`, the index is the one element of a tensor.
    It is read before anything is moved. Text: `%y = switch s0 > 2 [@then, @else] (%x)`."""

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
    """Calls `body` on `carried` and `captured` while `condition` gives true. Results have memory of their own, also where
    no trip is made; `fresh` says, for each, whether the body surely gives it such memory, so that only initial values have
    to be copied. `constants` are those that the body uses, whose memory it may give back. With `stacked`, the results are
    those of all trips, stacked.
    Text: `%y = loop @cond do @body carried(%x) captured(%w)`."""

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
class Recording:
    """How a recordable function may be recorded: on which device, the positions of the parameters that are tensors (others are
    part of a recording's key, as captured symbols are), of those that are bound by address, of those that it writes, and of those that
    it is given to end."""

    device: ir.Device
    tensors: tuple[int, ...]
    static: tuple[int, ...]
    written: tuple[int, ...]
    given: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionPlan:
    """A function's steps, in order. `windows` gives the windows of constants that its values stand for, by their numbers in
    the plan; `recording` how a device may record it."""

    function: ir.Function
    steps: tuple[Step, ...]
    is_main: bool = False
    windows: Mapping[ir.Value[ir.Type], int] = field(default_factory=dict)
    persistent: PersistentMemory = field(default_factory=PersistentMemory)
    recording: Recording | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.name
