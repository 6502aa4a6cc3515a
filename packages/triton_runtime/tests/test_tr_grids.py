"""Grids computed by one Python function equal their expressions for any numbers."""

from __future__ import annotations

from itertools import product

import pytest
from packages.triton_runtime.tests.triton_texts import bound

from triton_runtime import KernelError, make_grid
from wrapper_ir.expr import evaluate

CONFIGS = (
    "configs({X = 128, Y = 4, FLAG = true} warps(4) stages(1), {X = 7, Y = 1, FLAG = false} warps(1) "
    "stages(1))"
)

GRIDS = [
    "grid(ceildiv(xnumel, X))",
    "grid(ceildiv(xnumel, X), ceildiv(ynumel, Y))",
    # more than 65,535 in y continues in z
    "grid(ceildiv(xnumel, X), ceildiv(ceildiv(ynumel, Y), max(1, ceildiv(ceildiv(ynumel, Y), 65535))), "
    "max(1, ceildiv(ceildiv(ynumel, Y), 65535)))",
    "grid(min(xnumel, 132), max(ynumel // Y, 1), 1 + xnumel % X)",
    "grid(xnumel * g0, min(g0, 65535), ceildiv(g0, 65535)) over(g0)",
    "grid(where(xnumel < 1000, X, 2*X))",
    "grid(4, 2, FLAG + 1)",
]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("config", [0, 1])
def test_the_function_computes_the_expressions(grid: str, config: int) -> None:
    kernel = bound("read f32* x, i32 xnumel, i64 ynumel", f"order(x, xnumel, ynumel)\n  {CONFIGS}\n  {grid}")
    selected = kernel.configs[config]
    compiled = make_grid(kernel, selected)
    values = (0, 1, 7, 127, 128, 129, 65535, 65536, 262141, 1 << 33)
    for x, y, *g0 in product(values, values, *([(0, 1, 65535, 65536)] if kernel.grid_params else [])):
        env = {
            "xnumel": x,
            "ynumel": y,
            **dict(selected.meta),
            **dict(zip(kernel.grid_params, g0, strict=True)),
        }
        expected = [evaluate(size, env) for size in kernel.grid]
        assert compiled(None, x, y, *g0) == (*expected, 1, 1)[:3]
        assert all(type(size) is int for size in compiled(None, x, y, *g0))


def test_a_configs_own_grid_replaces_the_kernels() -> None:
    kernel = bound(
        "i32 n",
        "order(n, B)\n  configs({B = 2} warps(1) stages(1), {B = 4} warps(1) stages(1) grid(1, n))\n  "
        "grid(ceildiv(n, B))",
    )
    assert make_grid(kernel, kernel.configs[0])(9) == (5, 1, 1)
    assert make_grid(kernel, kernel.configs[1])(9) == (1, 9, 1)


def test_a_fixed_grid_is_known_without_a_launch() -> None:
    kernel = bound("i32 n", "order(n, B)\n  configs({B = 2} warps(1) stages(1))\n  grid(ceildiv(100, B), B)")
    assert make_grid(kernel, kernel.configs[0]).fixed == (50, 2, 1)
    kernel = bound("i32 n", "order(n)\n  configs({} warps(1) stages(1))\n  grid(n)")
    assert make_grid(kernel, kernel.configs[0]).fixed is None


def test_parameters_need_no_python_names() -> None:
    kernel = bound(
        'read f32* "in out", i32 n, i32 lambda',
        'order("in out", n, lambda)\n  configs({} warps(1) stages(1))\n  grid(n, 2*n)',
    )
    assert make_grid(kernel, kernel.configs[0])(None, 3, 4) == (3, 6, 1)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("grid(m)", "needs m"),
        ("grid(x)", "needs x"),
        ("grid(n / 2)", "not a whole number"),
        ("grid(1, 1, 1, 1)", "one to three sizes, not 4"),
    ],
)
def test_what_is_no_number_of_a_launch_is_refused(grid: str, message: str) -> None:
    kernel = bound("read f32* x, i32 n", f"order(x, n)\n  configs({{}} warps(1) stages(1))\n  {grid}")
    with pytest.raises(KernelError, match=message) as caught:
        make_grid(kernel, kernel.configs[0])
    assert caught.value.code == "TR106"
