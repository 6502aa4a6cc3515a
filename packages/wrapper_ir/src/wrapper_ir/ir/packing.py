"""Packed constants: the value of another constant in a layout that kernels of matmuls and convolutions read.

A layout maps the original's memory to panels of 16 columns. `Panels` is that map as strides. Python
(`wrapper_ir.artifact.packing`) and C++ (`update_constants` of libraries) both copy by it.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Int
from wrapper_ir.ir.layout import contiguous_strides
from wrapper_ir.ir.types import DType, TensorType

PANEL = 16
"""Columns of a panel."""


class PackedLayout(enum.Enum):
    """Layouts of packed constants. A matrix has K rows and N columns; the last panel is padded with zeros.

    A convolution's weight of O channels for C of G groups is a matrix for each group: the rows are the
    kernel's positions, outermost first, each with C/G channels, and the columns O/G output channels.
    """

    PANELS = "panels16"
    """A matrix as `[ceil(N/16), K, 16]`."""
    PAIRS = "panels16_pairs"
    """A matrix of 2-byte elements as `[ceil(N/16), ceil(K/2), 16, 2]`: rows in pairs, padded with zeros."""
    QUADS = "panels16_quads"
    """A matrix of 1-byte elements as `[ceil(N/16), ceil(K/4), 16, 4]`: rows in fours, padded with zeros."""
    CONVOLUTION = "convolution_panels16"
    """A convolution's weight as `[G, ceil(O/G/16), K, 16]`, one matrix a group."""
    DEPTHWISE = "depthwise_panels16"
    """The weight of a convolution with one channel and one output channel a group, as `[ceil(O/16), K, 16]`:
    one matrix of the kernel's positions and all output channels."""


_INTERLEAVED = {PackedLayout.PAIRS: 2, PackedLayout.QUADS: 4}
"""Layouts with several rows side by side, as many as elements fit into 4 bytes."""


@dataclass(frozen=True, slots=True)
class Panels:
    """A layout as strides, in elements of the original's memory.

    Column `n` of group `g` starts at `g * group_stride + n * column_stride`. `rows` are the sizes and strides
    of the dimensions of rows, outermost first. `interleave` rows are side by side.
    """

    groups: int
    group_stride: int
    columns: int
    column_stride: int
    rows: tuple[tuple[int, int], ...]
    interleave: int = 1

    @property
    def depth(self) -> int:
        """The number of rows."""
        return math.prod(size for size, _ in self.rows)

    @property
    def panels(self) -> int:
        """The number of panels of a group."""
        return -(-self.columns // PANEL)

    @property
    def stored_depth(self) -> int:
        """The number of rows of a panel, with padding."""
        return -(-self.depth // self.interleave) * self.interleave

    @property
    def panel_elements(self) -> int:
        """The number of elements of a panel."""
        return self.stored_depth * PANEL

    def copies(self) -> Iterator[tuple[slice, slice]]:
        """Yields slices of the packed elements, and the slices of the original's memory that they equal."""
        runs = list(self._runs())
        for group, column in itertools.product(range(self.groups), range(self.columns)):
            panel, lane = divmod(column, PANEL)
            start = (group * self.panels + panel) * self.panel_elements + lane * self.interleave
            origin = group * self.group_stride + column * self.column_stride
            for (to, to_step), (source, step), count in runs:
                yield _slice(start + to, to_step, count), _slice(origin + source, step, count)

    def _runs(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
        """Yields equally spaced rows of a column: start and step in the panel, those in memory, the count."""
        outer, (count, step) = self._merged()
        lanes = self.interleave
        if lanes > 1:  # of matrices only
            for rest in range(min(lanes, count)):
                yield (rest, PANEL * lanes), (rest * step, lanes * step), -(-(count - rest) // lanes)
            return
        for number, index in enumerate(itertools.product(*(range(size) for size, _ in outer))):
            start = sum(i * stride for i, (_, stride) in zip(index, outer))
            yield (number * count * PANEL, PANEL), (start, step), count

    def _merged(self) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """The dimensions of rows, merged where memory allows, and the innermost one."""
        merged = [(1, 1)]
        for size, stride in self.rows:
            last, last_stride = merged[-1]
            if last == 1:
                merged[-1] = (size, stride)
            elif size > 1 and last_stride != size * stride:
                merged.append((size, stride))
            elif size > 1:
                merged[-1] = (last * size, stride)
        return merged[:-1], merged[-1]


def _slice(start: int, step: int, count: int) -> slice:
    return slice(start, start + (count - 1) * step + 1, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Describes a packed constant as the value of the constant `original` in a layout.

    The original has the element type and device of the packed constant, and `sizes` and `strides` (none:
    contiguous) without gaps. Its memory is a row-major matrix with `columns` columns; a `transposed` one has
    `columns` rows. For convolutions, it is the weight of `groups` groups. Text: `packed panels16 of "w"(64,
    32) columns 64 transposed`.
    """

    syntax: ClassVar[str] = (
        "packed {layout} of {original}({sizes})< strides({strides})>< columns {columns}>< groups {groups}>"
        "< {transposed}>"
    )

    layout: PackedLayout
    original: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()
    columns: int = 0
    groups: int = 1
    transposed: bool = False

    def original_type(self, packed: TensorType) -> TensorType:
        """The type of the original of a packed constant of type `packed`."""
        sizes = tuple(map(Int, self.sizes))
        strides = tuple(map(Int, self.strides)) if self.strides else contiguous_strides(sizes)
        return TensorType(packed.dtype, sizes, strides, packed.device)

    @property
    def panels(self) -> Panels:
        """The layout as strides; the packing must have no `fault`."""
        if self.is_matrix:
            depth = math.prod(self.sizes) // self.columns
            row, column = (1, depth) if self.transposed else (self.columns, 1)
            return Panels(1, 0, self.columns, column, ((depth, row),), _INTERLEAVED.get(self.layout, 1))
        outputs, channels, *kernel = self.sizes
        out_stride, channel_stride, *kernel_strides = self.memory_strides
        rows = (*zip(kernel, kernel_strides), (channels, channel_stride))
        if self.layout is PackedLayout.DEPTHWISE:
            return Panels(1, 0, outputs, out_stride, rows)
        columns = outputs // self.groups
        return Panels(self.groups, columns * out_stride, columns, out_stride, rows)

    @property
    def is_matrix(self) -> bool:
        """Returns whether the original is a matrix, rather than the weight of a convolution."""
        return self.layout not in (PackedLayout.CONVOLUTION, PackedLayout.DEPTHWISE)

    @property
    def memory_strides(self) -> tuple[int, ...]:
        """The strides of the original."""
        return self.strides or _row_major(self.sizes)

    @property
    def packed_sizes(self) -> tuple[int, ...]:
        """The sizes of the packed constant, which is contiguous; the packing must have no `fault`."""
        panels = self.panels
        rows = panels.stored_depth // panels.interleave
        lanes = () if panels.interleave == 1 else (panels.interleave,)
        groups = (panels.groups,) if self.layout is PackedLayout.CONVOLUTION else ()
        return (*groups, panels.panels, rows, PANEL, *lanes)

    def packed_type(self, original: TensorType) -> TensorType:
        """The type of the packed constant; the packing must have no `fault`."""
        sizes = tuple(map(Int, self.packed_sizes))
        return TensorType(original.dtype, sizes, contiguous_strides(sizes), original.device)

    def fault(self, dtype: DType) -> str:
        """Returns the reason why this is not a packing of elements of this type; '' for none."""
        if not self.sizes or min(self.sizes) < 1:
            return "the original is empty or a scalar"
        if not _fills_memory(self.sizes, self.memory_strides):
            return "the original's memory has gaps, or elements that overlap"
        interleave = _INTERLEAVED.get(self.layout, 1)
        if dtype.itemsize > 8:
            return f"elements of {dtype.value} are not packed"
        if interleave > 1 and interleave * dtype.itemsize != 4:
            return f"{self.layout.value} is not a layout of {dtype.value}"
        if self.is_matrix:
            if self.groups != 1 or self.columns < 1 or math.prod(self.sizes) % self.columns:
                return f"{self.layout.value} needs one group, and columns that divide the elements"
            return ""
        return self._convolution_fault()

    def _convolution_fault(self) -> str:
        if self.columns or self.transposed or not 3 <= len(self.sizes) <= 5:
            return f"{self.layout.value} needs a weight of 1 to 3 spatial dimensions, and no columns"
        if self.groups < 1 or self.sizes[0] % self.groups:
            return f"{self.groups} groups do not divide {self.sizes[0]} output channels"
        if self.layout is PackedLayout.DEPTHWISE and (self.groups, 1) != self.sizes[:2]:
            return f"{self.layout.value} needs one channel and one output channel a group"
        return ""


def _row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))


def _fills_memory(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Returns whether a layout reaches each element of its extent once."""
    if len(sizes) != len(strides):
        return False
    running = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides) if size > 1):
        if stride != running:
            return False
        running *= size
    return True
