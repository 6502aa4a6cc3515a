"""What saved graphs may not do to memory: call operators that replace it, and make windows outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from fx_converter import targets
from fx_converter.errors import SavedGraphError
from wrapper_ir.analysis.input_facts import extent
from wrapper_ir.operators.library import rebinds
from wrapper_ir.operators.policy import called_names
from wrapper_ir_torch import FAST_EMPTY, FAST_VIEW

# Any in this file: arguments of nodes
_EMPTY = frozenset(FAST_EMPTY.values())


def refuse_rebinding(name: str, place: str) -> None:
    """Raises SavedGraphError FX205 for an operator that gives its argument other memory, or reads outside of it, unseen."""
    if any(rebinds(called) for called in called_names(name)):
        raise SavedGraphError(
            "FX205",
            f"operator {name} gives a tensor other memory, or does not look at bounds: {place}",
            hint="call aten::as_strided, or say it in the program and convert that",
        )


@dataclass(frozen=True, slots=True)
class _Memory:
    """The bytes of what a tensor lies in, as far as its graph says, and where in them its first element is."""

    nbytes: int
    start: int
    itemsize: int


class WindowBounds:
    """Follows windows of fixed size through a graph. Those whose numbers are nodes, and those of what a node says nothing about, are
    passed over."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, _Memory | None] = {}

    def check(self, node: fx.Node) -> None:
        """Raises SavedGraphError FX205 for a window that is not within what it is a window of."""
        target: Any = node.target
        args: tuple[Any, ...] = node.args
        if target in _EMPTY and len(args) == 3 and (needed := _extent(args[0], args[1])) is not None:
            self._known[node] = _Memory(needed * args[2].itemsize, 0, args[2].itemsize)
        elif target in (targets.same, targets.fill_zero) and len(args) == 1:
            self._known[node] = self._memory(args[0])
        elif target is FAST_VIEW and len(args) == 4:
            source = self._memory(args[0])
            if source is not None and isinstance(args[3], int):
                self._window(node, source, source.itemsize, args[1:3], args[3] * source.itemsize)
        elif target is targets.window and len(args) == 5:
            source = self._memory(args[0])
            if source is not None and isinstance(args[4], int) and isinstance(args[1], torch.dtype):
                self._window(node, source, args[1].itemsize, args[2:4], args[4])

    def _window(
        self, node: fx.Node, source: _Memory, itemsize: int, layout: tuple[Any, ...], offset: int
    ) -> None:
        needed = _extent(*layout)
        if needed is None:
            return
        start = source.start + offset
        if start < 0 or (needed and start + needed * itemsize > source.nbytes):
            raise SavedGraphError(
                "FX205",
                f"node {node.name} is a window of bytes {start} to {start + needed * itemsize} of {source.nbytes}",
                hint="correct its sizes, strides and offset before saving the graph",
            )
        self._known[node] = _Memory(source.nbytes, start, itemsize)

    def _memory(self, node: Any) -> _Memory | None:
        if not isinstance(node, fx.Node):
            return None
        if node not in self._known:
            val = node.meta.get("val")
            needed = _extent(val.shape, val.stride()) if isinstance(val, Tensor) else None
            size = val.element_size() if isinstance(val, Tensor) else 0
            self._known[node] = None if needed is None else _Memory(needed * size, 0, size)
        return self._known[node]


def _extent(sizes: Any, strides: Any) -> int | None:
    """Elements from the first to the last; None where a number is not known."""
    numbers = [*sizes, *strides]
    if len(sizes) != len(strides) or not all(type(n) is int for n in numbers):
        return None
    if any(n < 0 for n in numbers):
        raise SavedGraphError("FX205", f"a window has sizes {list(sizes)} and strides {list(strides)}")
    return extent(sizes, strides)
