"""Memory that persists from call to call: the nodes whose tensors lie in it, and how they are made.

`wrapper_ir_lowering` says which storages may persist. Views of them that depend on nothing else are made with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from fx_converter import targets
from fx_converter._compat import raw_stream
from wrapper_ir import ir
from wrapper_ir_lowering.persistent import PersistentBlock, plan_persistent, plan_windows
from wrapper_ir_torch import FAST_EMPTY, FAST_VIEW

# Any in this file: targets of nodes
_EMPTY: frozenset[Any] = frozenset({*FAST_EMPTY.values(), torch.ops.aten.empty_strided.default})
_VIEWS: frozenset[Any] = frozenset(
    {FAST_VIEW, targets.same, targets.window, torch.ops.aten.as_strided.default}
)


@dataclass(frozen=True, slots=True)
class PersistentNodes:
    """The blocks, and for each node in order the block that it allocates from, None for a view. Unless the memory `is_held`,
    calls allocate the blocks at these nodes, and release them at those in `frees`."""

    device: ir.Device
    blocks: Sequence[PersistentBlock]
    nodes: Mapping[fx.Node, int | None]
    frees: Mapping[fx.Node, int]
    is_held: bool

    def make(self) -> tuple[Any, ...]:
        """One set for one call at a time, on the current device of the type: tensors in the order of `used`, and unless they are
        held, a function for each block that resizes it."""
        empty = FAST_EMPTY[self.device.type]
        made: dict[fx.Node, Tensor] = {}
        with torch.inference_mode(False), torch.no_grad():
            memory = [empty((max(block.nbytes, 1),), (1,), torch.uint8) for block in self.blocks]
            for tensor, block in zip(memory, self.blocks, strict=True):
                if block.zero:
                    tensor.zero_()
            for node, place in self.nodes.items():
                made[node] = _view(node, made) if place is None else _over(memory[place], node.meta["val"])
        tensors = [made[node] for node in self.used()]
        resizers = [] if self.is_held else [tensor.untyped_storage().resize_ for tensor in memory]
        for resize in resizers:
            resize(0)
        return *tensors, *resizers

    def used(self) -> list[fx.Node]:
        """The nodes that others want the tensors of."""
        return [node for node in self.nodes if any(user not in self.nodes for user in node.users)]

    def key(self) -> Callable[[], int | None]:
        """What orders the calls that may use a set one after the other: the current stream; None where it is recorded into a
        graph, whose memory nobody else may use."""
        return _no_stream if self.device == ir.CPU else partial(_stream, self.device.index or 0)


def persistent_nodes(graph: fx.Graph, program: ir.Program, *, is_held: bool) -> PersistentNodes | None:
    """What a call of `main`'s graph may keep from call to call: memory with its tensors, or these alone; None for nothing."""
    plan = plan_persistent if is_held else plan_windows
    memory = plan(program.main, program.target.device)
    windows = {value.name: memory.windows[number].block for value, number in memory.values.items()}
    # a node that allocates may stand for the one view of all of its storage
    blocks = windows | {storage.name: block for storage, block in memory.storages.items()}
    found: dict[fx.Node, int | None] = {}
    frees: dict[fx.Node, int] = {}
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if node.op != "call_function":
            continue
        if node.target in _EMPTY and not inputs and node.meta.get("value") in blocks:
            found[node] = blocks[node.meta["value"]]
        elif node.target in _VIEWS and len(inputs) == 1 and inputs[0] in found:
            found[node] = None
        elif node.target is targets.free and (block := found.get(inputs[0])) is not None:
            frees[node] = block
    return PersistentNodes(program.target.device, memory.blocks, found, frees, is_held) if found else None


def _view(node: fx.Node, made: Mapping[fx.Node, Tensor]) -> Tensor:
    target: Any = node.target
    source, *args = node.args
    assert isinstance(source, fx.Node)
    tensor: Tensor = target(made[source], *args, **node.kwargs)
    return tensor


def _over(memory: Tensor, like: Tensor) -> Tensor:
    """A tensor at the begin of a block, with the layout of a fake value."""
    empty = torch.empty(0, dtype=like.dtype, device=memory.device)
    return empty.set_(memory.untyped_storage(), 0, like.size(), like.stride())


def _no_stream() -> int | None:
    return 0


def _stream(device: int) -> int | None:
    return None if torch.cuda.is_current_stream_capturing() else raw_stream(device)
