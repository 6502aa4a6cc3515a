"""Memory safety of saved graphs: they may neither call operators that replace memory, nor create windows
outside of it."""

from __future__ import annotations

from collections.abc import Sequence
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

_EMPTY = frozenset(FAST_EMPTY.values())


def refuse_rebinding(name: str, place: str) -> None:
    """Raises SavedGraphError FX205 for an operator that replaces its argument's memory, or accesses memory
    outside of it without a check."""
    if any(rebinds(callee) for callee in called_names(name)):
        raise SavedGraphError(
            "FX205",
            f"operator {name} replaces a tensor's memory, or does not check bounds: {place}",
            hint="call aten::as_strided, or express it in the program and convert that",
        )


@dataclass(frozen=True, slots=True)
class _Memory:
    """The bytes of a tensor's storage as far as the graph states them, and the position of its first element
    in bytes."""

    nbytes: int
    start: int
    itemsize: int


class WindowBounds:
    """Tracks windows of fixed size through a graph. Windows with computed numbers, and windows of unknown
    tensors, are skipped."""

    def __init__(self) -> None:
        self._memories: dict[fx.Node, _Memory | None] = {}

    def check(self, node: fx.Node) -> None:
        """Raises SavedGraphError FX205 for a window that exceeds its source."""
        target = node.target
        args: tuple[Any, ...] = node.args  # Any: in the structure of each target
        if target in _EMPTY and len(args) == 3 and (count := _extent(args[0], args[1])) is not None:
            self._memories[node] = _Memory(count * args[2].itemsize, 0, args[2].itemsize)
        elif target in (targets.same, targets.fill_zero) and len(args) == 1:
            self._memories[node] = self._memory(args[0])
        elif target is FAST_VIEW and len(args) == 4:
            source = self._memory(args[0])
            if source is not None and isinstance(args[3], int):
                self._window(node, source, source.itemsize, args[1:3], args[3] * source.itemsize)
        elif target is targets.window and len(args) == 5:
            source = self._memory(args[0])
            if source is not None and isinstance(args[4], int) and isinstance(args[1], torch.dtype):
                self._window(node, source, args[1].itemsize, args[2:4], args[4])

    def _window(
        self, node: fx.Node, source: _Memory, itemsize: int, layout: tuple[Sequence[object], ...], offset: int
    ) -> None:
        count = _extent(*layout)
        if count is None:
            return
        start = source.start + offset
        end = start + count * itemsize
        if start < 0 or (count and end > source.nbytes):
            raise SavedGraphError(
                "FX205",
                f"node {node.name} is a window of bytes {start} to {end} of {source.nbytes}",
                hint="correct its sizes, strides and offset before saving the graph",
            )
        self._memories[node] = _Memory(source.nbytes, start, itemsize)

    def _memory(self, node: object) -> _Memory | None:
        if not isinstance(node, fx.Node):
            return None
        if node not in self._memories:
            val = node.meta.get("val")
            count = _extent(val.shape, val.stride()) if isinstance(val, Tensor) else None
            size = val.element_size() if isinstance(val, Tensor) else 0
            self._memories[node] = None if count is None else _Memory(count * size, 0, size)
        return self._memories[node]


def _extent(sizes: Sequence[Any], strides: Sequence[Any]) -> int | None:  # Any: numbers and nodes
    """Returns the number of elements from the first to the last; None if a number is not constant."""
    numbers = [*sizes, *strides]
    if len(sizes) != len(strides) or not all(type(n) is int for n in numbers):
        return None
    if any(n < 0 for n in numbers):
        raise SavedGraphError("FX205", f"a window has sizes {list(sizes)} and strides {list(strides)}")
    return extent(sizes, strides)
