"""Control flow that torch has no operator for, and control flow whose functions do more than return something: they write,
check, print, communicate or draw.

Torch's own operators for control flow count as calls without effects, whatever their functions do. These call them, and
count as such with effects; what has none is called without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from fx_converter._compat import has_effect
from wrapper_ir_runtime import select_branch

_higher: Any = torch.ops.higher_order  # operators are found by name
# Any in this file: submodules, tensors and numbers


@has_effect
def cond_effect(*args: Any) -> Any:
    """`cond`."""
    return _higher.cond(*args)


def switch(index: Any, *rest: Any) -> Any:
    """Calls the branch at position `index`, a tensor of one element or a number; the operands follow the branches.

    Torch has no operator for it: a trace sees `cond` over the branches, one after the other.
    """
    *branches, operands = rest
    if not isinstance(index, torch.Tensor):
        return select_branch(int(index), branches)(*operands)
    if not isinstance(index, FakeTensor) and get_proxy_mode() is None:
        return select_branch(int(index.item()), branches)(*operands)
    inside = (index >= 0) & (index < len(branches))
    torch.ops.aten._assert_async.msg(inside, "the index of a switch is the position of no branch")
    return _choose(index, 0, branches, operands)


def _choose(index: torch.Tensor, position: int, branches: Sequence[Any], operands: Sequence[Any]) -> Any:
    """`cond` over the branches from `position` on."""
    if position == len(branches) - 1:
        return branches[position](*operands)

    def rest(index: torch.Tensor, *operands: Any) -> Any:
        return _choose(index, position + 1, branches, operands)

    def chosen(index: torch.Tensor, *operands: Any) -> Any:
        return branches[position](*operands)

    return _higher.cond(index == position, chosen, rest, (index, *operands))


@has_effect
def switch_effect(index: Any, *rest: Any) -> Any:
    """`switch`."""
    return switch(index, *rest)


@has_effect
def loop_effect(*args: Any) -> Any:
    """`while_loop`."""
    return _higher.while_loop(*args)


@has_effect
def stacked_effect(*args: Any) -> Any:
    """`while_loop_stack_output`."""
    return _higher.while_loop_stack_output(*args)


@has_effect
def invoke_effect(*args: Any) -> Any:
    """`invoke_subgraph`."""
    return _higher.invoke_subgraph(*args)


def replay(facts: tuple[Any, ...], *args: Any) -> Any:
    """`invoke_subgraph`, of a function that a device can record: what `compile` makes of a graph records it. `facts` are its
    name, its device, the number of its parameters, and the positions of those that are tensors, static, written, and the function's to end."""
    return _higher.invoke_subgraph(*args)


@has_effect
def replay_effect(facts: tuple[Any, ...], *args: Any) -> Any:
    """`replay`."""
    return _higher.invoke_subgraph(*args)


@has_effect
def follow(*earlier: object) -> int:
    """Makes one part of a graph depend on another, which may write memory that it reads; no value shows that."""
    return 0


# Any: tensors and numbers
@has_effect
def stacked_loop(
    condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], captured: Sequence[Any]
) -> list[Any]:
    """A loop that returns each carried tensor of all trips, stacked along a new first dimension, the first ones where there
    is no trip; of numbers the last trip's. Torch's operator for such loops carries tensors only."""
    trips: list[Sequence[Any]] = []
    now = carried
    while condition(*now, *captured):
        now = body(*now, *captured)
        trips.append(now)
    columns = zip(*(trips or [carried]), strict=True)
    return [torch.stack(c) if isinstance(c[0], Tensor) else c[-1] for c in columns]
