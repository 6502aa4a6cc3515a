"""Decides which matmuls are split along the summed dimension, and into how many parts.

The result of a matmul with few rows has few blocks, and leaves most multiprocessors of a GPU idle. cuBLAS
then splits the summed dimension itself, and sums the parts in a separate kernel (2.3 us on an H100, 4 for a
layer of GPT-2). If the program contains the parts, Inductor sums them in the kernel that uses the sum.

Measured for GPT-2 small on 1 x 64 tokens on an H100, calls in sequence: 755.6 us with whole matmuls, 676.8 us
with as many blocks as multiprocessors and at most 8 parts, 687.5 us with twice as many blocks, 698 us with
twice as many blocks and at most 16 parts.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_ROWS = 8
"""Fewest rows with a measured gain. One row is a matrix-vector product, for which cuBLAS has other kernels:
split, a call of GPT-2 small takes 1.06 of the time with whole matmuls."""
MOST_ROWS = 128
"""Two blocks of rows. With more rows, the columns of a layer yield enough blocks."""
_BLOCK = 64
"""Rows and columns of a result that a multiprocessor computes at a time."""
_MOST_PARTS = 8
"""Limited because each part is written and read once more."""
_MULTIPLE = 16
"""Parts begin at 64-byte boundaries for vector loads, and leave no remainder in the library's steps."""
_SHORTEST_PART = 96
"""Shortest part with a measured gain. cuBLAS does not split shorter matmuls, so that no kernel is saved."""


@dataclass(frozen=True, slots=True)
class MatmulSizes:
    """Sizes of a matmul of `rows` x `summed` and `summed` x `columns` elements."""

    rows: int
    summed: int
    columns: int

    def __str__(self) -> str:
        return f"[{self.rows}, {self.summed}] x [{self.summed}, {self.columns}]"

    @property
    def blocks(self) -> int:
        """Number of blocks of the result."""
        return -(-self.rows // _BLOCK) * -(-self.columns // _BLOCK)


@dataclass(frozen=True, slots=True)
class MatmulDecision:
    """Decision about a matmul: name of its FX node, sizes as text, and number of parts, or the reason why it
    is whole."""

    node: str
    sizes: str
    parts: int = 1
    why: str = ""

    @property
    def outcome(self) -> str:
        """Text of the decision: `2 parts`, or the reason why the matmul is whole."""
        return self.why or f"{self.parts} parts"


def parts_of(sizes: MatmulSizes, multiprocessors: int) -> int:
    """Returns the largest number of equal parts whose blocks all have a multiprocessor; 1: the matmul stays
    whole."""
    return max(
        parts for parts in range(1, _MOST_PARTS + 1) if parts == 1 or _fits(sizes, parts, multiprocessors)
    )


def _fits(sizes: MatmulSizes, parts: int, multiprocessors: int) -> bool:
    length, remainder = divmod(sizes.summed, parts)
    return (
        sizes.blocks > 0
        and remainder == 0
        and length % _MULTIPLE == 0
        and length >= _SHORTEST_PART
        and sizes.blocks * parts <= multiprocessors
    )
