"""Grids that the extension computes equal their expressions."""

from __future__ import annotations

from itertools import product

import pytest
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, clauses, launchable, load

from triton_runtime import LaunchError
from wrapper_ir.expr import evaluate

GRIDS = [
    "ceildiv(a, X)",
    "ceildiv(a, X), ceildiv(b, Y)",
    "ceildiv(a, X), ceildiv(ceildiv(b, Y), max(1, ceildiv(ceildiv(b, Y), 65535))), max(1, "
    "ceildiv(ceildiv(b, Y), 65535))",
    "min(a, 132), max(b // Y, 1), 1 + a % X",
    "a // -3 + 40000, (a - b) % 7, (b - a) % -5 + 6",
    "where(a < b and not a == 3 or b >= 9, X, Y), where(a != b, 1, 2), (a <= b) + (a > b) + 1",
    "where(b == 0, 1, a // b) % 1000",
    "a * a * b % 12345, 3, 2",
    "max(a, b, 7) - min(a, b, 7) + ceildiv(-a, 5) % 9",
    "to_int(sqrt(to_float(a))) + 1",
    "7, 8, 9",
]


@pytest.mark.parametrize("grid", GRIDS)
def test_grids_computed_natively_are_what_the_expressions_say(fake: FakeCuda, grid: str) -> None:
    kernel = load(fake.driver(), "i32 a", f"{clauses(['a', 'X', 'Y'], grid, 'X = 64, Y = 3')[:-1]} over(b)")
    compiled = launchable("i32 a", f"{clauses(['a', 'X', 'Y'], grid, 'X = 64, Y = 3')[:-1]} over(b)").grid
    limits = ((1 << 31) - 1, 65535, 65535)
    values = (0, 1, 2, 3, 9, 63, 64, 65, 1000, 65535, 65536, 2_000_000, (1 << 31) - 1)
    for a, b in product(values, (*values, 1 << 40)):
        sizes = tuple(int(evaluate(size, {"a": a, "b": b})) for size in compiled.sizes)
        if any(not 0 <= size <= limit for size, limit in zip(sizes, limits)):
            with pytest.raises(LaunchError, match=r"TR307"):
                kernel(a, b)
            continue
        kernel(a, b)
        launches = fake.launches()
        assert [launch.grid for launch in launches] == ([] if 0 in sizes else [sizes]), (a, b)


def test_a_grid_that_int64_cannot_hold_is_computed_by_python(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), "i64 a", clauses(["a"], "a * a * a // (a * a) % 1000 + 1"))
    kernel(1 << 40)
    assert fake.launches()[0].grid == ((1 << 40) % 1000 + 1, 1, 1)
    kernel = load(fake.driver(), "i64 a", clauses(["a"], "10 // a"))
    with pytest.raises(ZeroDivisionError):
        kernel(0)
    kernel(3)
    assert fake.launches()[0].grid == (3, 1, 1)


def test_numbers_with_fractions_in_grids(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), "f64 scale, i32 n", clauses(["scale", "n"], "to_int(scale * to_float(n))"))
    kernel(2.5, 10)
    assert fake.launches()[0].grid == (25, 1, 1)
