"""Pooling, resampling and samples of grids by the native runtime against torch, with their gradients, for all layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import CompareCalls, Findings, assert_same_tensor
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance
FAMILIES = ("pooling", "max_pooling", "upsampling", "grid_samplers")
LAST = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}
CASES = [(2, torch.float32), (2, torch.float64), (3, torch.float32), (3, torch.float64)]
"""Torch sums gradients of bfloat16 without more bits."""


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """The families of images in one library."""
    return build_operators(FAMILIES, str(tmp_path_factory.mktemp("images")))


class Calls:
    """Calls torch's operators by name, and compares each with the native one."""

    def __init__(self, operators: Operators) -> None:
        self.operators, self.findings = operators, Findings()

    def __call__(self, name: str, *args: Any) -> Any:  # Any: results of any operator
        case = str([tuple(a.shape) if isinstance(a, Tensor) else a for a in args])
        with torch.no_grad(), CompareCalls(self.operators, self.findings, case):
            return getattr(torch.ops.aten, name)(*args)  # by string: a table's name

    def check(self) -> None:
        """Fails if a result differs."""
        assert not self.findings.wrong
        assert not self.findings.refused
        assert self.findings.right


def images(axes: int, dtype: torch.dtype) -> list[Tensor]:
    """Images in several layouts: also one channel, a transposed one, and none."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, *(7, 9, 8)[:axes]).to(dtype)
    last = LAST[axes]
    return [x, x.to(memory_format=last), x[:, :1], x[:1].to(memory_format=last), x.transpose(0, 1), x[:0]]


@pytest.mark.parametrize(("axes", "dtype"), CASES)
def test_pooling(operators: Operators, axes: int, dtype: torch.dtype) -> None:
    call = Calls(operators)
    n = axes
    averages = [
        ([3], [2], [1], True, True, None),
        ([2], [], [0], False, False, None),
        ([3], [1], [1], True, False, None),
    ]
    for x in [*images(n, dtype), images(n, dtype)[0][0]]:
        for kernel, stride, padding, ceil, counted, divisor in [*averages, ([3], [2], [1], False, True, 5)]:
            options = (kernel * n, stride * n, padding * n)
            largest, indices = call(f"max_pool{n}d_with_indices", x, *options, [1], ceil)
            grad = torch.randn_like(largest)
            call(
                f"max_pool{n}d_with_indices_backward",
                grad,
                x,
                kernel,
                stride or kernel,
                padding,
                [1],
                ceil,
                indices,
            )
            call(f"max_pool{n}d_with_indices", x, [2], [2], [1], [2], ceil)
            if n == 2 or dtype is not torch.bfloat16:  # torch has no average of three axes of it
                average = call(f"avg_pool{n}d", x, *options, ceil, counted, divisor)
                grad = torch.randn_like(average)
                call(
                    f"avg_pool{n}d_backward",
                    grad,
                    x,
                    kernel,
                    stride or kernel,
                    padding,
                    ceil,
                    counted,
                    divisor,
                )
    call.check()


@pytest.mark.parametrize(("axes", "dtype"), CASES)
def test_pooling_to_a_size(operators: Operators, axes: int, dtype: torch.dtype) -> None:
    call = Calls(operators)
    n, sizes = axes, [3, 4, 2][:axes]
    for x in images(n, dtype)[:-1]:
        average = call(f"_adaptive_avg_pool{n}d", x, sizes)
        call(f"_adaptive_avg_pool{n}d_backward", torch.randn_like(average), x)
        largest, indices = call(f"adaptive_max_pool{n}d", x, sizes)
        call(f"adaptive_max_pool{n}d_backward", torch.randn_like(largest), x, indices)
        samples = torch.rand(x.shape[0], x.shape[1], n).to(dtype)
        largest, indices = call(f"fractional_max_pool{n}d", x, [2] * n, sizes, samples)
        call(f"fractional_max_pool{n}d_backward", torch.randn_like(largest), x, [2] * n, sizes, indices)
    call.check()


def test_pooling_of_lines(operators: Operators) -> None:
    for x in (torch.randn(2, 3, 9), torch.randn(3, 9), torch.randn(2, 9, 3).transpose(1, 2)):
        got = operators.call("aten::avg_pool1d", x, [3], [2], [1], True, False)
        assert_same_tensor(got, torch.nn.functional.avg_pool1d(x, 3, 2, 1, True, False))
        got = operators.call("aten::adaptive_avg_pool1d", x, [4])
        torch.testing.assert_close(got, torch.nn.functional.adaptive_avg_pool1d(x, 4))


RESAMPLERS = {
    **{f"upsample_nearest{n}d": n for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": n for n in (1, 2, 3)},
    "upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_trilinear3d": 3, "upsample_bicubic2d": 2,
    "_upsample_bilinear2d_aa": 2, "_upsample_bicubic2d_aa": 2,
}  # fmt: skip
_SIZES = ([5, 12, 3], [14, 18, 16], [7, 9, 8], [1, 1, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
@pytest.mark.parametrize("name", RESAMPLERS)
def test_resampling(operators: Operators, name: str, dtype: torch.dtype) -> None:
    call, axes = Calls(operators), RESAMPLERS[name]
    is_nearest, is_byte = "nearest" in name, dtype is torch.uint8
    if is_byte and not is_nearest and axes != 2:
        with pytest.raises(NativeError, match="no code for element type u8"):
            operators.call(f"aten::{name}", torch.zeros(1, 1, *[2] * axes, dtype=dtype), [3] * axes, True)
        return
    for x in images(axes, torch.float32)[: 2 if is_byte else None]:  # torch fails for other bytes
        given = (x * 64 + 128).to(dtype) if is_byte else x.to(dtype)
        for size in (s[:axes] for s in _SIZES[: 3 if is_byte else None]):
            for corners in ([], []) if is_nearest else ([False], [True]):
                for scales in ([None] * axes, [s / n for s, n in zip(size, x.shape[2:])]):
                    made = call(name, given, size, *corners, *scales)
                    if is_byte:
                        continue
                    grad = torch.randn_like(made)
                    call(f"{name}_backward", grad, size, list(x.shape), *corners, *scales)
    call.check()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("border", [0, 1, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("axes", [2, 3])
def test_samples_of_a_grid(operators: Operators, axes: int, mode: int, border: int, corners: bool) -> None:
    call = Calls(operators)
    name = f"grid_sampler_{axes}d"
    grid = torch.randn(2, *(5, 4, 6)[:axes], axes, dtype=torch.float64) * 1.2
    grid.view(-1)[:2] = torch.tensor([-1.0, 1.0])
    if mode == 2 and axes == 3:
        with pytest.raises(NativeError, match="cubic interpolation has two axes"):
            operators.call(f"aten::{name}", images(3, grid.dtype)[0], grid, mode, border, corners)
        return
    for x in images(axes, torch.float64)[:3]:
        made = call(name, x, grid, mode, border, corners)
        call(f"{name}_backward", torch.randn_like(made), x, grid, mode, border, corners, [True, True])
        got = operators.call(f"aten::{name}", x.float(), grid.float(), mode, border, corners)
        if mode != 1:  # the nearest position may be another one in double
            torch.testing.assert_close(got, made.float(), rtol=1e-4, atol=1e-4)
        image_grad, _ = operators.call(
            f"aten::{name}_backward", torch.randn_like(made), x, grid, mode, border, corners, [False, True]
        )
        assert image_grad is None
    call.check()


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("avg_pool2d", (torch.ones(3, 2, 2), [3, 3], []), "the images are smaller than a window"),
        ("avg_pool2d", (torch.ones(2, 2), [3, 3], []), "a tensor has another rank"),
        ("max_pool2d_with_indices", (torch.ones(3, 4, 4), [2], [], [2]), "more than half of the window"),
        ("max_unpool2d", (torch.ones(1, 2, 2), torch.full((1, 2, 2), 9), [2, 2]), "not one of a plane"),
        ("upsample_linear1d", (torch.ones(1, 1, 3), [0], False), "not positive"),
        ("grid_sampler_2d", (torch.ones(1, 1, 2, 2), torch.ones(2, 1, 1, 2), 0, 0, False), "different batches"),
    ],
)  # fmt: skip
def test_refuses_by_name(operators: Operators, name: str, args: tuple[object, ...], text: str) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call(f"aten::{name}", *args)
    assert name in str(caught.value)
