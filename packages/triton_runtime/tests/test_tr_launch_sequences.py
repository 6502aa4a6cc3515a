"""Several launches in one call: all arguments are read before the first launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, clauses, load, number

from triton_runtime.cuda import Step, make_sequence
from triton_runtime.errors import LaunchError
from wrapper_ir import ir


def test_a_sequence_makes_its_launches_in_order(fake: FakeCuda) -> None:
    driver = fake.driver()
    vector, number_ = load(driver, *VECTOR), load(driver, "i32 n, f32 s", clauses(["n", "s"], "n + 1"))
    run = make_sequence(
        driver, [Step(vector, (0, 1, 2)), Step(number_, (2, 3)), Step(vector, (1, 0, 4))], 3, (0.5, 64)
    )
    a, b = torch.empty(64), torch.empty(64)
    run(a, b, 200, stream=9)
    launches = fake.launches()
    assert [launch.params[:3] for launch in launches] == [
        (a.data_ptr(), b.data_ptr(), 200),
        (200, number("f", 0.5), 0),
        (b.data_ptr(), a.data_ptr(), 64),
    ]
    assert [launch.grid[0] for launch in launches] == [4, 201, 1]
    assert {launch.stream for launch in launches} == {9}
    with pytest.raises(TypeError, match="takes 3 values, got 2"):
        run(a, b)
    with pytest.raises(LaunchError, match=r"TR302"):
        run(a, None, 200)
    for steps, values in (
        ([Step(vector, (0, 1))], 3),
        ([Step(vector, (0, 1, 3))], 3),
        ([Step(vector, (0, 1, -1))], 3),
    ):
        with pytest.raises(ValueError, match="indices"):
            make_sequence(driver, steps, values)
    with pytest.raises(TypeError, match="not a loaded kernel"):
        make_sequence(driver, [Step(print, ())], 0)


def test_an_argument_that_does_not_fit_stops_all_launches(fake: FakeCuda) -> None:
    """Each kernel checks a tensor for itself, even if another one has accepted it."""
    driver = fake.driver()
    plain, whole = load(driver, *VECTOR), load(driver, "read i32* x", clauses(["x"]))
    run = make_sequence(driver, [Step(plain, (0, 1, 2)), Step(whole, (1,))], 3)
    a, b = torch.empty(64), torch.empty(64)
    with pytest.raises(LaunchError, match=r"TR302.*'x'.*a i32 tensor on cpu, got a float32"):
        run(a, b, 64)
    assert not fake.launches()
    grows = make_sequence(driver, [Step(plain, (0, 1, 2)), Step(plain, (1, 0, 2))], 3)
    grows(a, b, 0)
    assert not fake.launches(), "empty grids"
    grows(a.resize_(1 << 16), b, 64)
    grows(torch.nn.Parameter(a), b.view(8, 8), 64)
    assert [launch.params[0] for launch in fake.launches()] == 2 * [a.data_ptr(), b.data_ptr()]


def test_a_launch_that_the_driver_refuses_is_the_last(fake: FakeCuda) -> None:
    driver = fake.driver()
    kernel = load(driver, *VECTOR)
    run = make_sequence(
        driver, [Step(kernel, (0, 0, 1)), Step(kernel, (0, 0, 2)), Step(kernel, (0, 0, 3))], 4
    )
    x = torch.empty(64)
    # no context: retried in the kernel's own
    fake.fail("cuLaunchKernel", 201)
    run(x, 64, 128, 192)
    assert [launch.grid[0] for launch in fake.launches()] == [1, 2, 3]
    fake.fail("cuLaunchKernel", 700)
    with pytest.raises(LaunchError, match=r"TR308"):
        run(x, 64, 128, 192)
    assert not fake.launches()
    run(x, 64, 128, 192)
    assert len(fake.launches()) == 3


def test_hooks_and_scratch_memory_of_launches_in_a_sequence(fake: FakeCuda) -> None:
    driver = fake.driver()
    kernel, roomy = load(driver, *VECTOR), load(driver, *VECTOR, scratch=ir.Scratch(nbytes=8))
    run = make_sequence(driver, [Step(kernel, (0, 0, 1)), Step(roomy, (0, 0, 1))], 2)
    x = torch.empty(64)
    calls: list[Any] = []
    run(x, 128)
    assert [bool(launch.params[3]) for launch in fake.launches()] == [False, True]
    driver.hooks.exit = lambda *arguments: calls.append(arguments)
    run(x, 128, stream=6)
    assert calls == [(kernel, (2, 1, 1), 6), (roomy, (2, 1, 1), 6)]
    assert len(fake.launches()) == 2


def test_long_sequences_and_streams(fake: FakeCuda) -> None:
    """More launches than fit on the stack. The stream is looked up once for consecutive launches."""
    indices: list[int] = []

    def stream(index: int) -> int:
        indices.append(index)
        return 40 + index

    driver = fake.driver(stream=stream)
    here = load(driver, *VECTOR)
    there = load(driver, "i32 n", clauses(["n"]), device=ir.Device("cuda", 1))
    count = 2000
    steps = [*(Step(here, (0, 0, i)) for i in range(1, count + 1)), Step(there, (1,)), Step(here, (0, 0, 1))]
    x = torch.empty(64)
    make_sequence(driver, steps, count + 1)(x, *range(1, count + 1))
    launches = fake.launches()
    assert [launch.params[2] for launch in launches[:count]] == [*range(1, count + 1)]
    assert indices == [-1, 1, -1]
    assert [launch.stream for launch in launches[count - 1 :]] == [39, 41, 39]
