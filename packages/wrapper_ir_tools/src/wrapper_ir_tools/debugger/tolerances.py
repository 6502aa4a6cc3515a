"""Numeric tolerances by element type, and comparison of contents."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir_runtime.tensor_text import TensorView, decode
from wrapper_ir_tools.debugger.contents import Content


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Elements a and b agree if `|a - b| <= absolute + relative * |b|`; NaN agrees with NaN."""

    relative: float
    absolute: float


Number = bool | int | float | complex
EXACT = Tolerance(0.0, 0.0)
TOLERANCES: dict[ir.DType, Tolerance] = {
    ir.DType.F64: Tolerance(1e-7, 1e-9),
    ir.DType.F32: Tolerance(1e-4, 1e-5),
    ir.DType.F16: Tolerance(1e-2, 1e-3),
    ir.DType.BF16: Tolerance(5e-2, 1e-2),
    ir.DType.F8E4M3FN: Tolerance(0.25, 0.125),
    ir.DType.F8E4M3FNUZ: Tolerance(0.25, 0.125),
    ir.DType.F8E5M2: Tolerance(0.5, 0.25),
    ir.DType.F8E5M2FNUZ: Tolerance(0.5, 0.25),
    ir.DType.C32: Tolerance(1e-2, 1e-3),
    ir.DType.C64: Tolerance(1e-4, 1e-5),
    ir.DType.C128: Tolerance(1e-7, 1e-9),
}
"""Elements of other types must be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of two contents: `count` of `total` elements, the first at `index` (row-major).

    `largest` is the largest distance.
    """

    text: str
    count: int = 0
    total: int = 0
    index: tuple[int, ...] = ()
    largest: float = 0.0


def compare_contents(a: Content, b: Content, override: Tolerance | None = None) -> Difference | None:
    """Returns the difference, or None. `override` replaces those of floating-point and complex types."""
    match a.data, b.data:
        case TensorView() as one, TensorView() as other if a.kind == b.kind:
            if one.data == other.data:
                return None
            tolerance = TOLERANCES.get(one.dtype, EXACT)
            if override is not None and tolerance is not EXACT:
                tolerance = override
            return _compare_elements(one, other, tolerance)
        case (TensorView(), _) | (_, TensorView()):
            return Difference(text=f"{a.kind} against {b.kind}")
        case number, reference:
            return _compare_numbers(number, reference, override)


def _compare_numbers(
    one: bool | int | float, other: bool | int | float, override: Tolerance | None
) -> Difference | None:
    inexact = float in (type(one), type(other))
    tolerance = (override or TOLERANCES[ir.DType.F64]) if inexact else EXACT
    if _agree(one, other, tolerance):
        return None
    return Difference(text=f"{one} against {other}", count=1, total=1, largest=abs(float(one) - float(other)))


def _agree(a: Number, b: Number, tolerance: Tolerance) -> bool:
    if a == b:
        return True
    distance = abs(a - b)
    if distance <= tolerance.absolute + tolerance.relative * abs(b):
        # with an infinite b, the bound is infinite
        return math.isfinite(distance)
    return a != a and b != b


def _compare_elements(a: TensorView, b: TensorView, tolerance: Tolerance) -> Difference | None:
    pairs = zip(decode(a.data, a.dtype), decode(b.data, b.dtype), strict=True)
    wrong = [(i, x, y) for i, (x, y) in enumerate(pairs) if x != y and not _agree(x, y, tolerance)]
    if not wrong:
        return None
    first, x, y = wrong[0]
    index = _index(first, a.sizes)
    distances = [abs(p - q) for _, p, q in wrong]
    largest = max((d for d in distances if not math.isnan(d)), default=math.nan)
    total = math.prod(a.sizes)
    return Difference(
        text=f"{len(wrong)} of {total} elements, the first at {list(index)}: {x:.6g} against {y:.6g}, "
        + ("" if math.isnan(largest) else f"at most {largest:.3g} apart ")
        + f"(allowed: {tolerance.absolute:g} + {tolerance.relative:g}*|b|)",
        count=len(wrong),
        total=total,
        index=index,
        largest=largest,
    )


def _index(position: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(sizes):
        position, rest = divmod(position, size)
        index.append(rest)
    return tuple(reversed(index))
