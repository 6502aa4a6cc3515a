"""Launches through the extension: conversion of arguments, and errors for wrong ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, clauses, launchable, load, number

from triton_runtime import LaunchError
from wrapper_ir import ir

DTYPES = [
    "f64",
    "f32",
    "f16",
    "bf16",
    "i64",
    "i32",
    "i16",
    "i8",
    "u64",
    "u32",
    "u16",
    "u8",
    "bool",
    "f8e4m3fn",
]


def test_parameters_grid_block_and_stream_reach_the_driver(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR, shared_bytes=1000)
    x, out = torch.empty(300), torch.empty(300)
    assert kernel(x[1:], torch.nn.Parameter(out), 300) is None
    kernel(x, out, 64, stream=0x123456789)
    kernel(x, out, n := True)
    first, second, third = fake.launches()
    assert (first.grid, first.block, first.shared, first.stream) == ((5, 1, 1), (128, 1, 1), 1000, 0)
    assert first.params == (x.data_ptr() + 4, out.data_ptr(), 300, 0, 0), (
        "two null pointers for scratch memory"
    )
    assert not first.extended
    assert (second.grid, second.stream) == ((1, 1, 1), 0x123456789)
    assert third.params[2] == n
    assert fake.function(first).symbol == b"f"
    assert (kernel.name, kernel.registers, kernel.local_bytes) == ("k", 20, 4)  # type: ignore[attr-defined]  # the extension's own


def test_parameters_go_in_the_functions_order_and_constants_stay_out(fake: FakeCuda) -> None:
    kernel = load(
        fake.driver(),
        "write f32* out, read f32* x, f64 scale",
        "\n  order(x, B, scale, out)\n  configs({B = 64} warps(4) stages(1))\n  grid(g * B, h) over(g, h)\n",
    )
    out, x = torch.empty(1), torch.empty(1)
    kernel(out, x, 0.1, 3, 7)
    (launch,) = fake.launches()
    assert launch.params == (x.data_ptr(), number("d", 0.1), out.data_ptr(), 0, 0)
    assert launch.grid == (192, 7, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype(fake: FakeCuda, dtype: str) -> None:
    kernel = load(fake.driver(), f"read {dtype}* x", clauses(["x"]))
    right = torch.empty(3, dtype=getattr(torch, NATIVE[dtype]))
    kernel(right)
    assert fake.launches()[0].params[0] == right.data_ptr()
    wrong = torch.empty(3, dtype=torch.complex64)
    with pytest.raises(
        LaunchError, match=rf"TR302.*argument 0 'x'.*a {dtype} tensor on cpu, got a complex64 tensor"
    ):
        kernel(wrong)
    assert not fake.launches()
    unchecked = load(fake.driver(check_args=False), f"read {dtype}* x", clauses(["x"]))
    unchecked(wrong)
    assert fake.launches()[0].params[0] == wrong.data_ptr()


NATIVE = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
    "f8e4m3fn": "float8_e4m3fn",
}  # fmt: skip


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_whole_numbers_are_passed_or_refused(fake: FakeCuda, bits: int, signed: bool) -> None:
    dtype = f"{'i' if signed else 'u'}{bits}"
    kernel = load(fake.driver(), f"{dtype} n", clauses(["n"]))
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for value in (low, high, 0, 1, 100, high - 1):
        kernel(value)
        assert fake.launches()[0].params[0] == value % (1 << bits)
    for value in (low - 1, high + 1, 1 << 70, -(1 << 70)):
        with pytest.raises(LaunchError, match=rf"TR303.*argument 0 'n'.*{value} does not fit {dtype}"):
            kernel(value)

    class Index:
        def __index__(self) -> int:
            return 5

    kernel(Index())
    assert fake.launches()[0].params[0] == 5
    for wrong in (1.0, "1", None, torch.tensor(1)):
        with pytest.raises(LaunchError, match=rf"TR303.*expected an int \({dtype}\)"):
            kernel(wrong)


@pytest.mark.parametrize(("dtype", "code"), [("f64", "d"), ("f32", "f"), ("f16", "e")])
def test_numbers_with_fractions_are_as_in_c(fake: FakeCuda, dtype: str, code: str) -> None:
    kernel = load(fake.driver(), f"{dtype} x", clauses(["x"]))
    for value in (0.0, -0.0, 1.5, 0.1, -65504.0, math.inf, -math.inf, 3, True, 2.0**-20):
        kernel(value)
        assert fake.launches()[0].params[0] == number(code, value), value
    for wrong in ("1", None, torch.tensor(1.0), 1j):
        with pytest.raises(LaunchError, match=rf"TR303.*expected a float \({dtype}\)"):
            kernel(wrong)


def test_bfloat16_numbers_are_rounded_as_torch_rounds(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), "bf16 x", clauses(["x"]))
    values = [
        *torch.randn(200, generator=torch.Generator().manual_seed(1)).tolist(),
        1.00390625,
        1.01171875,
        3e38,
        math.inf,
    ]
    for value in values:
        kernel(value)
        expected = torch.tensor(value).bfloat16().view(torch.uint16).item()
        assert fake.launches()[0].params[0] == expected, value
    kernel(math.nan)
    assert math.isnan(
        torch.tensor(fake.launches()[0].params[0], dtype=torch.uint16).view(torch.bfloat16).item()
    )
    half = load(fake.driver(), "f16 x", clauses(["x"]))
    with pytest.raises(LaunchError, match=r"TR303.*70000.0 does not fit f16"):
        half(70000.0)


def test_wrong_arguments_are_explained_and_the_next_call_works(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR)
    x = torch.empty(64)
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((x, x), r"TR301.*takes 3 arguments \(x, out, n\), got 2"),
        ((x, x, 1, 2), r"TR301.*takes 3 arguments.*got 4"),
        ((x, 1, 2), r"TR302.*argument 1 'out'.*a f32 tensor on cpu, got int 1"),
        ((None, x, 2), r"TR302.*argument 0 'x'.*got NoneType"),
        ((x, x.double(), 2), r"TR302.*argument 1 'out'.*got a float64 tensor on cpu"),
        (
            (x, torch.empty(64, device="meta"), 2),
            r"TR302.*argument 1 'out'.*tensor on cpu, got a float32 tensor on meta",
        ),
        ((x, torch.empty(64).to_sparse(), 2), r"TR302.*argument 1 'out'"),
        ((x, x, x), r"TR303.*argument 2 'n'.*expected an int.*got a float32 tensor"),
        ((x, x, 1 << 31), r"TR303.*2147483648 does not fit i32"),
        ((x, x, -64), r"TR307.*\(-1, 1, 1\) is out of range"),
    ]
    for args, message in wrong:
        with pytest.raises(LaunchError, match=message) as caught:
            kernel(*args)
        assert isinstance(caught.value, TypeError)
        kernel(x, x, 64)
        assert len(fake.launches()) == 1
    with pytest.raises(TypeError, match="only keyword"):
        kernel(x, x, 64, n=3)
    with pytest.raises(TypeError, match="int"):
        kernel(x, x, 64, stream="7")


def test_a_tensor_of_another_device_is_named(fake: FakeCuda) -> None:
    """A kernel on a GPU receives a CPU tensor; the error precedes the stream lookup."""
    source = fake.driver(stream=lambda index: 0)
    kernel = load(source, *VECTOR, device=ir.Device("cuda", 1))
    with pytest.raises(
        LaunchError, match=r"TR302.*argument 0 'x'.*a f32 tensor on cuda:1, got a float32 tensor on cpu"
    ):
        kernel(torch.empty(64), torch.empty(64), 64)
    assert not fake.launches()


def test_pinned_host_memory_is_passed_by_its_address_on_the_device(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = load(fake.driver(stream=lambda index: 0), *VECTOR, device=ir.Device("cuda", 1))
    monkeypatch.setenv("FAKE_CUDA_PINNED", "1")
    x = torch.empty(64)
    kernel(x, x, 64)
    assert fake.launches()[0].params[:2] == (x.data_ptr() + (1 << 40),) * 2


def test_subclasses_with_memory_are_tensors_and_others_are_refused(fake: FakeCuda) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Own(torch.Tensor):
        pass

    kernel = load(fake.driver(), *VECTOR)
    x = torch.empty(64)
    kernel(x.as_subclass(Own), x, 64)
    assert fake.launches()[0].params[0] == x.data_ptr()
    with pytest.raises(LaunchError, match=r"TR302.*'x'.*got a float64 tensor"):
        kernel(x.double().as_subclass(Own), x, 64)
    with FakeTensorMode():
        fake_tensor = torch.empty(64)
    with (
        pytest.warns(UserWarning, match="data pointer of FakeTensor"),
        pytest.raises(LaunchError, match=r"TR302.*argument 1 'out'.*FakeTensor has no memory"),
    ):
        kernel(x, fake_tensor, 64)
    empty = torch.empty(64)
    empty.untyped_storage().resize_(0)
    with pytest.raises(LaunchError, match=r"TR302.*argument 0 'x'.*Tensor has no memory"):
        kernel(empty, x, 64)
    kernel(torch.empty(0), x, 64)
    assert fake.launches()[0].params[0] == 0


def test_what_the_code_relies_on_is_looked_at(fake: FakeCuda) -> None:
    text = ("read f32* x divisible(16), i32 n divisible(16)", clauses(["x", "n"]))
    kernel = load(fake.driver(), *text)
    x = torch.empty(64)
    kernel(x, 32)
    with pytest.raises(LaunchError, match=r"TR306.*argument 0 'x'.*0x[0-9a-f]+ is not a multiple of 16"):
        kernel(x[1:], 32)
    with pytest.raises(LaunchError, match=r"TR306.*argument 1 'n'.*33 is not a multiple of 16"):
        kernel(x, 33)
    load(fake.driver(check_args=False), *text)(x[1:], 33)
    assert len(fake.launches()) == 2


def test_tensors_are_read_by_method_where_torch_keeps_them_elsewhere(fake: FakeCuda) -> None:
    """Simulates a torch whose tensor layout is unknown: slower, still correct."""
    driver = fake.driver()
    kernel = load(driver, *VECTOR)
    one = torch.empty(4)
    parts = (torch.Tensor, torch.nn.Parameter, torch.Tensor.data_ptr, one)
    try:
        assert driver.extension.set_torch(*parts, 0, None) is False
        x = torch.empty(300)
        kernel(x[2:], torch.nn.Parameter(x), 300)
        assert fake.launches()[0].params[:2] == (x.data_ptr() + 8, x.data_ptr())
        with pytest.raises(LaunchError, match=r"TR302.*got int"):
            kernel(x, 3, 300)
    finally:
        fake.driver().load(launchable(*VECTOR), ir.CPU)
    with pytest.raises(LaunchError, match=r"TR302"):
        kernel(x.double(), x, 300)
