"""Which matmuls are split along the summed dimension, and into how many parts: sizes in, a number out.

The result of a matmul with few rows has few blocks, and most multiprocessors of a GPU would have nothing to do. cuBLAS then splits
the summed dimension itself, and adds the parts in a kernel of its own (2.3 us on an H100, 4 for a layer of GPT-2). Where the program
has the parts, Inductor adds them in the kernel that uses the sum. The numbers below are those of GPT-2 small on 1 x 64 tokens, an H100:
755.6 us for a call in a row as cuBLAS has it, 676.8 us with as many blocks as multiprocessors and at most 8 parts, 687.5 us with
twice as many blocks, 698 us with twice as many and at most 16 parts.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_ROWS = 8
"""The fewest that were measured to gain: one row is a matmul of a matrix and a vector, for which cuBLAS has kernels of another kind,
and a call of GPT-2 small takes 1.06 of what it takes with whole matmuls."""
MOST_ROWS = 128
"""Two blocks of rows: from there on the columns of a layer make blocks enough."""
_BLOCK = 64
"""Rows and columns of a result that a multiprocessor computes at a time."""
_MOST_PARTS = 8
"""Each part is written and read once more."""
_MULTIPLE = 16
"""Parts begin where the library can load 64 bytes at once, and have no remainder in its steps."""
_SHORTEST_PART = 96
"""The shortest part that was measured to gain. cuBLAS does not split shorter matmuls, so there is no kernel to save."""


@dataclass(frozen=True, slots=True)
class MatmulSizes:
    """Of a matmul of `rows` x `summed` and `summed` x `columns` elements."""

    rows: int
    summed: int
    columns: int

    def __str__(self) -> str:
        return f"[{self.rows}, {self.summed}] x [{self.summed}, {self.columns}]"

    @property
    def blocks(self) -> int:
        """How many blocks the result has."""
        return -(-self.rows // _BLOCK) * -(-self.columns // _BLOCK)


@dataclass(frozen=True, slots=True)
class MatmulDecision:
    """What became of a matmul: the name of its FX node, its sizes as text, and how many parts it has, or why it is whole."""

    node: str
    sizes: str
    parts: int = 1
    why: str = ""

    @property
    def outcome(self) -> str:
        """`2 parts`, or why the matmul is whole."""
        return self.why or f"{self.parts} parts"


def parts_of(sizes: MatmulSizes, multiprocessors: int) -> int:
    """The most parts of one length with a multiprocessor for each block of each part; 1: the matmul stays whole."""
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
