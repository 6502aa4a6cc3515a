"""Control flow without an operator in torch, and control flow whose functions have effects: they write,
check, print, communicate or draw.

Torch regards its operators for control flow as calls without effects. The functions `*_effect` call them and
are marked as having effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from fx_converter._compat import has_effect
from fx_converter.nodes import Value
from wrapper_ir_runtime import select_branch

_higher: Any = torch.ops.higher_order  # operators are found by name
ReplayFacts: TypeAlias = tuple[str, str, int, Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
"""A replayable function's name, device and number of parameters, then the positions of those that are
tensors, static, written, and freed by the function."""
Branch: TypeAlias = Callable[..., object]


@has_effect
def cond_effect(*args: object) -> Any:  # Any: as the operator returns
    """Calls `cond`."""
    return _higher.cond(*args)


def switch(index: Tensor | float, *rest: Any) -> object:  # Any: branches, then a tuple of operands
    """Calls the branch at position `index`, a tensor of one element or a number. The operands follow the
    branches.

    Torch has no such operator; a trace contains nested `cond` over the branches.
    """
    *branches, operands = rest
    if not isinstance(index, Tensor):
        return select_branch(int(index), branches)(*operands)
    if not isinstance(index, FakeTensor) and get_proxy_mode() is None:
        return select_branch(int(index.item()), branches)(*operands)
    in_range = (index >= 0) & (index < len(branches))
    torch.ops.aten._assert_async.msg(in_range, "the index of a switch is the position of no branch")
    return _choose(index, 0, branches, operands)


def _choose(index: Tensor, position: int, branches: Sequence[Branch], operands: Sequence[object]) -> object:
    """Calls `cond` over the branches from `position` on."""
    if position == len(branches) - 1:
        return branches[position](*operands)

    def rest(index: Tensor, *operands: object) -> object:
        return _choose(index, position + 1, branches, operands)

    def branch(index: Tensor, *operands: object) -> object:
        return branches[position](*operands)

    result: object = _higher.cond(index == position, branch, rest, (index, *operands))
    return result


@has_effect
def switch_effect(index: Tensor | float, *rest: object) -> object:
    """Calls `switch`."""
    return switch(index, *rest)


@has_effect
def loop_effect(*args: object) -> Any:  # Any: as the operator returns
    """Calls `while_loop`."""
    return _higher.while_loop(*args)


@has_effect
def stacked_effect(*args: object) -> Any:  # Any: as the operator returns
    """Calls `while_loop_stack_output`."""
    return _higher.while_loop_stack_output(*args)


@has_effect
def invoke_effect(*args: object) -> Any:  # Any: as the operator returns
    """Calls `invoke_subgraph`."""
    return _higher.invoke_subgraph(*args)


def replay(facts: ReplayFacts, *args: object) -> object:
    """Calls `invoke_subgraph` of a function that a device can capture. Programs of `compile` capture it."""
    result: object = _higher.invoke_subgraph(*args)
    return result


@has_effect
def replay_effect(facts: ReplayFacts, *args: object) -> object:
    """Calls `replay`."""
    return replay(facts, *args)


@has_effect
def follow(*earlier: object) -> int:
    """Makes one part of a graph depend on another, which may write memory that the part reads; no value
    expresses this."""
    return 0


@has_effect
def stacked_loop(
    condition: Callable[..., object],
    body: Callable[..., Sequence[Value]],
    carried: Sequence[Value],
    captured: Sequence[Value],
) -> list[Value]:
    """Runs a loop that returns each carried tensor of all trips, stacked along a new first dimension; without
    a trip, the initial ones. It returns the last trip's numbers. Torch's operator for such loops carries
    tensors only."""
    trips: list[Sequence[Value]] = []
    now = carried
    while condition(*now, *captured):
        now = body(*now, *captured)
        trips.append(now)
    columns = zip(*(trips or [carried]), strict=True)
    return [torch.stack(c) if isinstance(c[0], Tensor) else c[-1] for c in columns]
