"""The table of operators' temporaries says what torch's allocator shows: exactly where torch decides, at least where oneDNN does."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.common.compare import temporary_bytes
from tools.operator_temporaries import measure, needs_nothing
from wrapper_ir import parse_program
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir_passes.analysis.temporaries.nothing import NOTHING
from wrapper_ir_passes.analysis.temporaries.table import (
    OPERATOR_TEMPORARIES,
    temporaries,
    unknown_temporaries,
)

# Any in this file: operators, their arguments and results
_DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32"}
_DTYPES |= {torch.bfloat16: "bf16", torch.float16: "f16"}
_LAYOUTS = ("rows", "transposed", "strided")
_IS_X86 = platform.machine() in ("x86_64", "AMD64")
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def _type(t: Tensor) -> str:
    return f"{_DTYPES[t.dtype]}{list(t.shape)}{{{', '.join(map(str, t.stride()))}}}"


def _figures(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int | None, int]:
    """Returns the temporaries of a call by the table (None: unknown) and by the allocator, for its first result."""
    params: list[str] = []

    def text(value: Any) -> str:
        if isinstance(value, Tensor):
            params.append(f"%p{len(params)}: {_type(value)}")
            return f"%p{len(params) - 1}"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        return {"True": "true", "False": "false", "None": "none"}.get(str(value), str(value))

    given = [*map(text, args), *(f"{name}={text(value)}" for name, value in kwargs.items())]
    overload(*args, **kwargs)
    kept: list[Any] = []

    def run() -> None:
        made = overload(*args, **kwargs)
        kept.append(made[0] if isinstance(made, tuple) else made)

    measured = temporary_bytes(run)
    (made,) = kept
    several = len(overload._schema.returns) > 1
    name = str(overload._schema).partition("(")[0]
    result = f"call {name}({', '.join(given)})"
    if "out" in kwargs:
        body = f"  {result}\n  return %p{len(params) - 1}"
    elif several:
        body = f"  %r = {result} : results\n  %y = unpack %r[0] : {_type(made)}\n  drop %r\n  return %y"
    else:
        body = f"  %y = {result} : {_type(made)}\n  return %y"
    program = parse_program(
        f"wir 0.5\ntarget cpu\n\nextern {json.dumps(str(overload._schema))}\n\nfunc @main({', '.join(params)}) {{\n{body}\n}}\n"
    )
    sizes = Sizes(program)
    if unknown_temporaries(program.main, sizes):
        return None, measured
    return sum(temporaries(program.main, sizes).values()), measured


def _assert_exact(overload: Any, *args: Any, **kwargs: Any) -> None:
    said, measured = _figures(overload, args, kwargs)
    assert said == measured


def _assert_bound(overload: Any, *args: Any, **kwargs: Any) -> None:
    said, measured = _figures(overload, args, kwargs)
    assert said is not None
    assert measured <= said


def _matrix(dtype: torch.dtype, *sizes: int, layout: str) -> Tensor:
    if layout == "transposed":
        return torch.ones(*sizes[:-2], sizes[-1], sizes[-2]).to(dtype).mT
    if layout == "strided":
        return torch.ones(*sizes[:-1], 2 * sizes[-1]).to(dtype)[..., ::2]
    return torch.ones(*sizes).to(dtype)


@pytest.mark.parametrize("layouts", [*product(_LAYOUTS, repeat=3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_products_copy_what_has_no_dense_side(dtype: torch.dtype, layouts: tuple[str, str, str]) -> None:
    for rows, inner, columns in ((8, 64, 32), (1, 64, 64), (64, 64, 1), (5, 3, 2)):
        one = _matrix(dtype, rows, inner, layout=layouts[0])
        two = _matrix(dtype, inner, columns, layout=layouts[1])
        out = _matrix(dtype, rows, columns, layout=layouts[2])
        _assert_exact(aten.mm.out, one, two, out=out)
        _assert_exact(aten.addmm.out, torch.ones(columns).to(dtype), one, two, beta=1, alpha=1, out=out)
        _assert_exact(aten.mm.default, one, two)


@pytest.mark.parametrize("layouts", [*product(_LAYOUTS, repeat=2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_batches_copy_one_matrix_at_a_time(dtype: torch.dtype, layouts: tuple[str, str]) -> None:
    for batch, rows, inner, columns in ((4, 16, 8, 16), (1, 16, 8, 16), (12, 1, 64, 128), (32, 4, 4, 4)):
        one = _matrix(dtype, batch, rows, inner, layout=layouts[0])
        two = _matrix(dtype, batch, inner, columns, layout=layouts[1])
        out = torch.ones(batch, rows, columns, dtype=dtype)
        _assert_exact(aten.bmm.out, one, two, out=out)
        _assert_exact(aten.baddbmm.default, out, one, two)


_ATTENTION = (
    (2, 4, 16, 16, 8),
    (2, 4, 128, 100, 64),
    (1, 4, 600, 600, 64),
    (2, 4, 1, 128, 64),
    (1, 2, 900, 1000, 40),
)


@pytest.mark.parametrize(("batch", "heads", "queries", "keys", "width"), _ATTENTION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_holds_a_block_and_sums_that_nothing_takes(
    dtype: torch.dtype, batch: int, heads: int, queries: int, keys: int, width: int
) -> None:
    def heads_of(length: int, dense: bool = False) -> Tensor:
        if dense:
            return torch.randn(batch, heads, length, width, dtype=dtype)
        return torch.randn(batch, length, heads, width, dtype=dtype).transpose(1, 2)

    q, k, v = heads_of(queries), heads_of(keys), heads_of(keys)
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    _assert_exact(forward, q, k, v)
    _assert_exact(forward, heads_of(queries, True), k, v, 0.0, True)
    out, sums = forward(q, k, v)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    for dense in (False, True):
        # Gradients of keys and values are not taken: they count as temporaries.
        _assert_bound(backward, heads_of(queries, dense), q, k, v, out, sums, 0.0, False)


@pytest.mark.parametrize("shape", [(64,), (8, 100), (4, 32, 50)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sorts_and_running_sums(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, dtype=dtype)
    for dim in range(len(shape)):
        # Some CPUs sort rows without a copy.
        _assert_bound(aten.sort.stable, x, stable=True, dim=dim)
        _assert_exact(aten.topk.default, x, 3, dim)
        _assert_exact(aten.cumsum.default, x, dim)
        _assert_exact(aten.cumsum.default, x.to(torch.int32), dim)
        _assert_exact(aten.cumsum.out, x.to(torch.int32), dim, out=torch.zeros(shape, dtype=torch.int64))


_Convolution = tuple[tuple[int, ...], tuple[int, ...], int, int, int, int]
_CONVOLUTIONS: tuple[_Convolution, ...] = (
    ((1, 4, 10, 10), (8, 4, 3, 3), 1, 1, 1, 1),
    ((3, 4, 10, 10), (8, 4, 3, 3), 1, 1, 1, 1),
    ((2, 16, 32, 32), (32, 16, 3, 3), 2, 1, 1, 1),
    ((2, 16, 32, 32), (32, 4, 3, 3), 1, 1, 1, 4),
    ((2, 16, 20, 20), (16, 1, 7, 7), 1, 3, 1, 16),
    ((2, 3, 32, 32), (16, 3, 4, 4), 4, 0, 1, 1),
    ((2, 8, 16, 16), (24, 8, 1, 1), 1, 0, 1, 1),
    ((2, 8, 16, 16), (24, 8, 1, 1), 1, 1, 1, 1),
    ((2, 8, 16, 16), (24, 8, 1, 1), 2, 0, 1, 1),
    ((2, 16, 16, 16), (16, 16, 3, 3), 1, 2, 2, 1),
    ((2, 16, 50), (32, 16, 3), 1, 1, 1, 1),
    ((2, 4, 8, 8, 8), (8, 4, 3, 3, 3), 1, 1, 1, 1),
)
"""Sizes of images and weights, stride, padding, dilation, groups."""


def _convolution(case: _Convolution, dtype: torch.dtype, last: bool) -> tuple[Any, ...]:
    images, weights, stride, padding, dilation, groups = case
    dims = len(images) - 2
    image, weight = torch.randn(images, dtype=dtype), torch.randn(weights, dtype=dtype)
    if last:
        image = image.contiguous(memory_format=torch.channels_last)
        weight = weight.contiguous(memory_format=torch.channels_last)
    bias = torch.randn(weights[0], dtype=dtype)
    spread = [[n] * dims for n in (stride, padding, dilation)]
    return image, weight, bias, *spread, False, [0] * dims, groups


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_convolutions_without_onednn(case: _Convolution) -> None:
    _assert_exact(aten.convolution.default, *_convolution(case, torch.float64, False))


@pytest.mark.skipif(not _IS_X86, reason="figures of oneDNN on x86")
@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_convolutions_hold_no_more_than_the_table_says(case: _Convolution) -> None:
    for last in (False, True) if len(case[0]) == 4 else (False,):
        said, measured = _figures(aten.convolution.default, _convolution(case, torch.float32, last), {})
        assert said is not None
        assert measured <= said + _scratch()


def _scratch() -> int:
    """Bytes that vectors narrower than AVX-512 may need beside the figure: scratch of groups."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512" and "ONEDNN_MAX_CPU_ISA" not in os.environ
    return 0 if wide else 8216


_LSTMS = (
    (8, 3, 16, 32),
    (1, 1, 16, 16),
    (8, 32, 16, 16),
    (8, 8, 32, 16),
    (16, 64, 64, 64),
    (20, 5, 40, 60),
    (4, 2, 256, 256),
)


@pytest.mark.skipif(not _IS_X86, reason="figures of oneDNN on x86")
@pytest.mark.parametrize(("steps", "batch", "inputs", "hidden"), _LSTMS)
def test_lstms_hold_no_more_than_the_table_says(steps: int, batch: int, inputs: int, hidden: int) -> None:
    x, state = torch.randn(steps, batch, inputs), torch.randn(1, batch, hidden)
    weights = [torch.randn(4 * hidden, n) for n in (inputs, hidden)]
    biases = [torch.randn(4 * hidden) for _ in range(2)]
    call = (x, *weights, *biases, state, state.clone(), False, [], 2, hidden, 1, True, False, False, False)
    _assert_bound(aten.mkldnn_rnn_layer.default, *call)


@pytest.mark.slow
@pytest.mark.skipif(not _IS_X86, reason="figures of oneDNN on x86")
def test_narrower_vectors() -> None:
    test = f"{__file__}::test_lstms_hold_no_more_than_the_table_says"
    others = (test.replace("lstms", "convolutions"), test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *others]
    run = subprocess.run(
        command, env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


def test_what_depends_on_the_cpu_is_not_known() -> None:
    half = torch.ones(8, 8, dtype=torch.bfloat16)
    assert _figures(aten.mm.default, (half, half), {})[0] is None
    assert _figures(aten.linalg_qr.default, (torch.randn(8, 8),), {})[0] is None
    images, weights = torch.randn(2, 4, 8, 8), torch.randn(4, 4, 3, 3)
    rest = ([1, 1], [0, 0], [1, 1], True, [0, 0], 1)
    assert _figures(aten.convolution.default, (images, weights, None, *rest), {})[0] is None


@pytest.mark.slow
def test_operators_that_need_nothing() -> None:
    names = {n.removeprefix("aten::").partition(".")[0].strip("_") for n in NOTHING}
    recorder = measure(lambda entry: entry.rpartition(".")[2] in names)
    measured = NOTHING & recorder.most.keys()
    assert len(measured) > 100
    assert [n for n in sorted(measured) if not needs_nothing(recorder, n)] == []
    assert not NOTHING & OPERATOR_TEMPORARIES.keys()
