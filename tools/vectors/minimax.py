"""Writes the polynomials of the native runtime's vector functions: `python -m tools.vectors.minimax`.

Each polynomial is the best one of its degree for a weight (Remez's algorithm), computed with 60 digits.
`python -m tools.vectors.minimax --check` fails if the header differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mpmath as mp

HEADER = (
    Path(__file__).parents[2] / "packages/cpp_wrapper/src/cpp_wrapper/native/vectors/vector_coefficients.h"
)
_HEAD = """\
// Polynomials of vector functions, the constant first. Written by `python -m tools.vectors.minimax`: do not edit.
#pragma once

namespace wir::vec {

"""
_GRID = 600
"""Points between which extremes of the error are found."""
_ROUNDS = 30

Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial:
    """A polynomial of `count` coefficients that approximates `target` on [low, high].

    The largest weighted error is minimal. `comment` states what the polynomial is for.
    """

    name: str
    comment: str
    count: int
    low: mp.mpf
    high: mp.mpf
    target: Function
    weight: Function
    has_rest: bool = False
    """Whether the constant is a sum of two doubles."""


def remez(polynomial: Polynomial) -> tuple[list[mp.mpf], mp.mpf]:
    """Returns the coefficients and the largest weighted error."""
    low, high, count = polynomial.low, polynomial.high, polynomial.count
    # Without the ends and the middle, where weights may be zero.
    angles = [mp.pi * (i + mp.mpf(1) / 2) / _GRID for i in range(_GRID)]
    grid = [(low + high) / 2 - (high - low) / 2 * mp.cos(angle) for angle in angles]
    targets = [polynomial.target(x) for x in grid]
    weights = [polynomial.weight(x) for x in grid]
    nodes = [round(i * (_GRID - 1) / count) for i in range(count + 1)]
    coefficients: list[mp.mpf] = []
    largest = mp.mpf(0)
    for _ in range(_ROUNDS):
        rows = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, node in enumerate(nodes):
            for power in range(count):
                rows[row, power] = grid[node] ** power
            rows[row, count] = (-1) ** row / weights[node]
            right[row] = targets[node]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[i] for i in range(count)]
        errors = [w * (mp.polyval(coefficients[::-1], x) - t) for x, t, w in zip(grid, targets, weights)]
        extremes = _extremes(errors, count + 1)
        largest = max(abs(e) for e in errors)
        if extremes == nodes:
            break
        nodes = extremes
    return coefficients, largest


def _extremes(errors: Sequence[mp.mpf], count: int) -> list[int]:
    """Returns the indices of `count` extremes of alternating sign, the largest ones."""
    chosen: list[int] = []
    for index, error in enumerate(errors):
        if chosen and (error > 0) == (errors[chosen[-1]] > 0):
            if abs(error) > abs(errors[chosen[-1]]):
                chosen[-1] = index
        else:
            chosen.append(index)
    while len(chosen) > count:
        chosen.pop(0 if abs(errors[chosen[0]]) < abs(errors[chosen[-1]]) else -1)
    if len(chosen) < count:
        raise ArithmeticError(f"{len(chosen)} extremes instead of {count}")
    return chosen


def _tail(function: Function, terms: Sequence[Callable[[mp.mpf], mp.mpf]], divisor: Function) -> Function:
    """Returns (function - terms) / divisor, at twice the precision since the terms cancel."""

    def value(x: mp.mpf) -> mp.mpf:
        with mp.workdps(mp.mp.dps * 3):
            x = x if x else mp.mpf(10) ** -30
            return (function(x) - sum(term(x) for term in terms)) / divisor(x)

    return value


def _of(
    name: str, comment: str, count: int, interval: tuple[mp.mpf, mp.mpf], target: Function, weight: Function
) -> Polynomial:
    low, high = interval
    return Polynomial(
        name=name, comment=comment, count=count, low=low, high=high, target=target, weight=weight
    )


def _exponentials() -> tuple[Polynomial, ...]:
    half = mp.ln2 / 2 * mp.mpf("1.01")
    square = _tail(mp.exp, (lambda r: mp.mpf(1), lambda r: r), lambda r: r * r)
    cube = _tail(mp.exp, (lambda r: 1 + r + r * r / 2,), lambda r: r**3)
    power = _tail(lambda r: mp.mpf(2) ** r, (lambda r: mp.mpf(1),), lambda r: r)
    of_square, of_cube, of_power = "(e^r - 1 - r) / r^2", "(e^r - 1 - r - r^2/2) / r^3", "(2^r - 1) / r"
    around, unit = (-half, half), (mp.mpf("-0.505"), mp.mpf("0.505"))
    return (
        _of("kExpShort", f"{of_square}, for float", 5, around, square, lambda r: r * r),
        _of("kExpFloat", f"{of_square}, for float results of double arithmetic", 6, around, square, abs),
        _of("kExpDouble", f"{of_cube}, for double", 10, around, cube, lambda r: r * r),
        _of("kExp2Short", f"{of_power}, for float", 6, unit, power, abs),
        _of("kExp2Float", f"{of_power}, for float results of double arithmetic", 7, unit, power, abs),
        _of("kExp2Double", f"{of_power}, for double", 12, unit, power, abs),
    )


def _logarithms() -> tuple[Polynomial, ...]:
    root = mp.sqrt(mp.mpf(1) / 2)
    square = _tail(lambda f: mp.log(1 + f), (lambda f: f,), lambda f: f * f)
    cube = _tail(lambda f: mp.log(1 + f), (lambda f: f - f * f / 2,), lambda f: f**3)

    def ratio(z: mp.mpf) -> mp.mpf:
        return mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z)

    first = _tail(ratio, (lambda z: mp.mpf(2),), lambda z: z)
    second = _tail(ratio, (lambda z: 2 + z * 2 / 3,), lambda z: z * z)
    around, squares = (root - 1, 1 / root - 1), (mp.mpf(0), ((1 - root) / (1 + root)) ** 2 * mp.mpf("1.01"))
    of_square, of_ratio = "(log(1 + f) - f) / f^2", "log((1 + s) / (1 - s))"
    return (
        _of("kLogShort", "(log(1 + f) - f + f^2/2) / f^3, for float", 9, around, cube, lambda f: f * f),
        _of("kLogFloat", f"{of_square}, for float results of double arithmetic", 10, around, square, abs),
        _of("kLogPower", f"{of_square}, for powers of float", 13, around, square, abs),
        _of("kLogRatio", f"({of_ratio} / s - 2) / s^2 of s^2, for double", 8, squares, first, _one),
        _of("kLogSeries", f"({of_ratio} - 2 s - 2/3 s^3) / s^5 of s^2, for double", 9, squares, second, _one),
    )


def _angles() -> tuple[Polynomial, ...]:
    quarter = (mp.mpf(0), (mp.pi / 4 * mp.mpf("1.01")) ** 2)
    half = (mp.mpf(0), (mp.pi / 2 * mp.mpf("1.01")) ** 2)
    eighth = (mp.mpf(0), (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"))
    unit, root = (mp.mpf(0), mp.mpf(1)), (mp.mpf(0), mp.mpf("0.2501"))
    sin = _tail(lambda z: mp.sin(mp.sqrt(z)) / mp.sqrt(z), (_one,), _same)
    cos = _tail(lambda z: mp.cos(mp.sqrt(z)), (lambda z: 1 - z / 2,), lambda z: z * z)
    atan = _tail(lambda z: mp.atan(mp.sqrt(z)) / mp.sqrt(z), (_one,), _same)
    asin = _tail(lambda z: mp.asin(mp.sqrt(z)) / mp.sqrt(z), (_one,), _same)
    of_sin, of_cos = "(sin(r) - r) / r^3 of r^2", "(cos(r) - 1 + r^2/2) / r^4 of r^2"
    of_atan, of_asin = "(atan(z) - z) / z^3 of z^2", "(asin(z) - z) / z^3 of z^2"
    return (
        _of("kSinFloat", f"{of_sin} up to pi/4, for float", 3, quarter, sin, _same),
        _of("kCosFloat", f"{of_cos}, for float", 3, quarter, cos, lambda z: z * z),
        _of("kSinShort", f"{of_sin} up to pi/2, for float", 4, half, sin, _same),
        _of("kSinWide", f"{of_sin} up to pi/2, for float results of double arithmetic", 5, half, sin, _same),
        _of("kSinDouble", f"{of_sin}, for double", 7, quarter, sin, _same),
        _of("kCosDouble", f"{of_cos}, for double", 7, quarter, cos, lambda z: z * z),
        _of("kAtanFloat", f"{of_atan}, for float", 10, unit, atan, _same),
        _of("kAsinFloat", f"{of_asin}, for float", 6, root, asin, _same),
        _of("kAtanDouble", f"{of_atan} up to tan(pi/8), for double", 11, eighth, atan, _same),
        _of("kAsinDouble", f"{of_asin}, for double", 13, root, asin, _same),
    )


def _errors() -> tuple[Polynomial, ...]:
    middle, last = mp.mpf(2), mp.mpf("10.2")

    def ratio(z: mp.mpf) -> mp.mpf:
        return mp.erf(mp.sqrt(z)) / mp.sqrt(z)

    def scaled(x: mp.mpf) -> mp.mpf:
        return mp.erfc(x) * mp.exp(x * x)

    def turned(t: mp.mpf) -> mp.mpf:
        return scaled(middle * (1 + t) / (1 - t))

    def far(t: mp.mpf) -> mp.mpf:
        x = 3 * (1 + t) / (1 - t)
        return scaled(x) * x

    tail = _tail(ratio, (lambda z: 2 / mp.sqrt(mp.pi),), _same)
    unit, turn = (mp.mpf(0), mp.mpf(1)), (mp.mpf(-1), (last - middle) / (last + middle))
    near, middles = (mp.mpf(0), mp.mpf("0.2501")), (mp.mpf("-0.75"), mp.mpf("0.75"))
    fars = (mp.mpf(-1) / 5, mp.mpf("24.7") / mp.mpf("30.7"))
    return (
        _of("kErfNear", "erf(x) / x of x^2 up to 1, for float", 7, unit, _tail(ratio, (), _one), _one),
        _of(
            "kErfFar", "log2(erfc(x)) from 1 to 4, for float", 8, (mp.mpf(1), mp.mpf(4)),
            lambda x: mp.log(mp.erfc(x), 2), lambda x: mp.erfc(x) + mp.mpf(2) ** -30,
        ),
        _of(
            "kErfcFloat", "erfc(x) e^(x^2) of (x - 2) / (x + 2), for float", 12, turn, turned,
            lambda t: 1 / turned(t),
        ),
        _of("kErfDouble", "(erf(x) / x - 2 / sqrt(pi)) / x^2 of x^2 up to 1/2, for double", 9, near, tail, _same),
        replace(_of(
            "kErfcDouble", "erfc(x) e^(x^2) of x - 5/4, from 1/2 to 2, for double", 21, middles,
            lambda u: scaled(u + mp.mpf("1.25")), lambda u: 1 / scaled(u + mp.mpf("1.25")),
        ), has_rest=True),
        replace(_of(
            "kErfcTail", "erfc(x) e^(x^2) x of (x - 3) / (x + 3), from 2 to 27.7, for double", 19, fars, far,
            lambda t: 1 / far(t),
        ), has_rest=True),
    )  # fmt: skip


def _one(_: mp.mpf) -> mp.mpf:
    return mp.mpf(1)


def _same(x: mp.mpf) -> mp.mpf:
    return x


def polynomials() -> tuple[Polynomial, ...]:
    """Returns the specifications of all polynomials, in the header's order."""
    return (*_exponentials(), *_logarithms(), *_angles(), *_errors())


def header_text() -> str:
    """Returns the header."""
    parts = [_HEAD]
    for polynomial in polynomials():
        coefficients, error = remez(polynomial)
        values = "\n".join(f"    {float(one).hex()}," for one in coefficients)
        bits = float(mp.log(error, 2))
        parts.append(
            f"/// {polynomial.comment}; error 2^{bits:.1f}.\n"
            f"constexpr double {polynomial.name}[] = {{\n{values}\n}};\n"
        )
        if polynomial.has_rest:
            rest = float(coefficients[0] - float(coefficients[0]))
            parts.append(
                f"/// The constant of `{polynomial.name}` beyond its first number.\n"
                f"constexpr double {polynomial.name}Rest = {rest.hex()};\n"
            )
    return "".join([*parts, "\n}  // namespace wir::vec\n"])


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the header."""
    mp.mp.dps = 40
    text = header_text()
    if "--check" in arguments:
        return int(HEADER.read_text() != text)
    HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
