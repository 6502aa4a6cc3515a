"""Memory that persists between calls: the nodes whose tensors use it, and their creation.

`wrapper_ir_lowering` decides which storages may persist. Views of them that depend on nothing else are
created with them.
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

_EMPTY: frozenset[object] = frozenset({*FAST_EMPTY.values(), torch.ops.aten.empty_strided.default})
_VIEWS: frozenset[object] = frozenset(
    {FAST_VIEW, targets.same, targets.window, torch.ops.aten.as_strided.default}
)


@dataclass(frozen=True, slots=True)
class PersistentNodes:
    """The blocks, and in order each node with the block that it allocates from, or None for a view. Unless
    the memory `is_held`, calls allocate the blocks at these nodes, and release them at the nodes in `frees`.
    """

    device: ir.Device
    blocks: Sequence[PersistentBlock]
    nodes: Mapping[fx.Node, int | None]
    frees: Mapping[fx.Node, int]
    is_held: bool

    def make(self) -> tuple[Any, ...]:  # Any: tensors, then functions
        """Creates one set for one call at a time, on the current device of the type: tensors in the order of
        `used` and, unless memory `is_held`, a function for each block that resizes it."""
        empty = FAST_EMPTY[self.device.type]
        views: dict[fx.Node, Tensor] = {}
        with torch.inference_mode(False), torch.no_grad():
            memory = [empty((max(block.nbytes, 1),), (1,), torch.uint8) for block in self.blocks]
            for tensor, block in zip(memory, self.blocks, strict=True):
                if block.zero:
                    tensor.zero_()
            for node, place in self.nodes.items():
                views[node] = _view(node, views) if place is None else _over(memory[place], node.meta["val"])
        tensors = [views[node] for node in self.used()]
        resizers = [] if self.is_held else [tensor.untyped_storage().resize_ for tensor in memory]
        for resize in resizers:
            resize(0)
        return *tensors, *resizers

    def used(self) -> list[fx.Node]:
        """Returns the nodes whose tensors other nodes use."""
        return [node for node in self.nodes if any(user not in self.nodes for user in node.users)]

    def key(self) -> Callable[[], int | None]:
        """Returns the function that identifies the order of calls that may share a set: the current stream,
        or None while it is captured into a graph, whose memory is exclusive."""
        return _no_stream if self.device == ir.CPU else partial(_stream, self.device.index or 0)


def persistent_nodes(graph: fx.Graph, program: ir.Program, *, is_held: bool) -> PersistentNodes | None:
    """Returns the memory that a call of `main`'s graph may keep between calls, with its tensors, or the
    tensors alone; None if there are none."""
    plan = plan_persistent if is_held else plan_windows
    memory = plan(program.main, program.target.device)
    windows = {value.name: memory.windows[number].block for value, number in memory.values.items()}
    # a node that allocates may stand for the one view of all of its storage
    blocks = windows | {storage.name: block for storage, block in memory.storages.items()}
    nodes: dict[fx.Node, int | None] = {}
    frees: dict[fx.Node, int] = {}
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if node.op != "call_function":
            continue
        if node.target in _EMPTY and not inputs and node.meta.get("value") in blocks:
            nodes[node] = blocks[node.meta["value"]]
        elif node.target in _VIEWS and len(inputs) == 1 and inputs[0] in nodes:
            nodes[node] = None
        elif node.target is targets.free and (block := nodes.get(inputs[0])) is not None:
            frees[node] = block
    return PersistentNodes(program.target.device, memory.blocks, nodes, frees, is_held) if nodes else None


def _view(node: fx.Node, views: Mapping[fx.Node, Tensor]) -> Tensor:
    source, *args = node.args
    assert callable(node.target)
    assert isinstance(source, fx.Node)
    tensor: Tensor = node.target(views[source], *args, **node.kwargs)
    return tensor


def _over(memory: Tensor, like: Tensor) -> Tensor:
    """Returns a tensor at the start of a block, with the layout of a fake value."""
    empty = torch.empty(0, dtype=like.dtype, device=memory.device)
    return empty.set_(memory.untyped_storage(), 0, like.size(), like.stride())


def _no_stream() -> int | None:
    return 0


def _stream(device: int) -> int | None:
    return None if torch.cuda.is_current_stream_capturing() else raw_stream(device)
