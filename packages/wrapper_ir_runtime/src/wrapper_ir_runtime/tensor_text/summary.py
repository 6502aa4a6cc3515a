"""Statistics of a tensor's elements, accumulated in float64 in one order, so that all engines print the same
digits.

Elements are summed in row-major order, in blocks of `BLOCK`; the last block is padded with zeros. In a block,
the second half is added to the first, element by element, until one number remains. The sums of blocks are
added first to last. Elements that are not finite are counted, and are zeros in sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import add, mul

from wrapper_ir import ir
from wrapper_ir_runtime.tensor_text.elements import BLOCK, Number, blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSummary:
    """Mean, extremes and standard deviation of the finite elements.

    The deviation is that of a sample (divided by the number of elements less one); NaN for one element. All
    are None if no element is finite. For complex elements, the mean is complex, and the extremes are absolute
    values.
    """

    numbers: int
    """Number of elements; an element of `f4e2m1fnx2` counts as two."""
    nan: int = 0
    inf: int = 0
    mean: float | complex | None = None
    minimum: bool | int | float | None = None
    maximum: bool | int | float | None = None
    std: float | None = None


def summarize(data: memoryview, dtype: ir.DType) -> TensorSummary:
    """Summarizes the elements of `data`, contiguous and little-endian, in two passes."""
    first = _FirstPass()
    for block in blocks(data, dtype):
        first.add(block)
    finite = first.numbers - first.nan - first.inf
    if finite == 0:
        return TensorSummary(numbers=first.numbers, nan=first.nan, inf=first.inf)
    real, imaginary = first.real / finite, first.imaginary / finite
    squares = 0.0
    for block in blocks(data, dtype):
        squares += _block_squares(block, real, imaginary)
    return TensorSummary(
        numbers=first.numbers,
        nan=first.nan,
        inf=first.inf,
        mean=complex(real, imaginary) if dtype.is_complex else real,
        minimum=first.minimum,
        maximum=first.maximum,
        std=math.sqrt(squares / (finite - 1)) if finite > 1 else math.nan,
    )


class _FirstPass:
    """Sums, counts and extremes of the elements."""

    def __init__(self) -> None:
        self.numbers = self.nan = self.inf = 0
        self.real = self.imaginary = 0.0
        self.minimum: bool | int | float | None = None
        self.maximum: bool | int | float | None = None

    def add(self, block: Sequence[Number]) -> None:
        self.numbers += len(block)
        if isinstance(block[0], complex):
            self._add_complex([x for x in block if isinstance(x, complex)])
            return
        numbers = [x for x in block if not isinstance(x, complex)]
        total = _block_sum(map(float, numbers))
        if not math.isfinite(total):  # an element is not finite, or the sum is too large
            self._count(numbers)
            finite = [float(x) if math.isfinite(x) else 0.0 for x in numbers]
            total = _block_sum(finite)
            numbers = [x for x in numbers if math.isfinite(x)]
        self.real += total
        self._extremes(numbers)

    def _add_complex(self, block: Sequence[complex]) -> None:
        finite = [x if _is_finite(x) else 0j for x in block]
        self._count(block)
        self.real += _block_sum([x.real for x in finite])
        self.imaginary += _block_sum([x.imag for x in finite])
        self._extremes([math.sqrt(x.real * x.real + x.imag * x.imag) for x in block if _is_finite(x)])

    def _count(self, block: Sequence[Number]) -> None:
        nan = sum(1 for x in block if _is_nan(x))
        self.nan += nan
        self.inf += sum(1 for x in block if not _is_finite(x)) - nan

    def _extremes(self, numbers: Sequence[bool | int | float]) -> None:
        if not numbers:
            return
        low, high = min(numbers), max(numbers)
        self.minimum = low if self.minimum is None or low < self.minimum else self.minimum
        self.maximum = high if self.maximum is None or high > self.maximum else self.maximum


def _is_finite(x: Number) -> bool:
    return math.isfinite(x.real) and math.isfinite(x.imag)


def _is_nan(x: Number) -> bool:
    return math.isnan(x.real) or math.isnan(x.imag)


def _block_squares(block: Sequence[Number], real: float, imaginary: float) -> float:
    """Returns the sum of squared distances of a block's finite elements from the mean."""
    if not isinstance(block[0], complex):
        distances = [x - real for x in block if not isinstance(x, complex)]
        total = _block_sum(map(mul, distances, distances))
        if math.isfinite(total):
            return total
    return _block_sum([_square(x, real, imaginary) for x in block])


def _square(x: Number, real: float, imaginary: float) -> float:
    """Returns the squared distance from the mean; 0 for a number that is not finite."""
    if not _is_finite(x):
        return 0.0
    first, second = x.real - real, x.imag - imaginary
    return first * first + second * second if isinstance(x, complex) else first * first


def _block_sum(numbers: Iterable[float]) -> float:
    """Returns the sum of at most `BLOCK` numbers: halves are added until one number remains."""
    part = list(numbers)
    part += [0.0] * (BLOCK - len(part))
    while len(part) > 1:
        half = len(part) // 2
        part = list(map(add, part[:half], part[half:]))
    return part[0]
