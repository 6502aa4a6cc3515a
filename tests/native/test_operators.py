"""Operators of the native runtime against torch's, on samples of torch's operator database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import DTYPES, assert_same_tensor, compare_samples
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.slow

FAMILIES = {
    "views": ("unfold", "expand", "squeeze", "unsqueeze", "permute", "transpose", "view_as_real", "as_strided", "narrow"),
    "copies": ("cat", "clone", "nn.functional.pad", "slice_scatter", "as_strided_copy", "full_like", "stack"),
    "sorting": ("topk", "kthvalue", "median", "nanmedian", "mode", "nanquantile"),
    "scans": ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
    "fft": ("fft.fft", "fft.fft2", "fft.ifftn", "fft.rfft", "fft.rfftn", "fft.irfft", "fft.irfftn", "fft.hfft", "stft"),
    "unary": ("abs", "acos", "exp", "log1p", "sqrt", "tan", "angle", "conj_physical", "neg"),
    "binary": ("add", "sub", "mul", "div", "pow", "where", "gcd", "polar", "complex", "eq", "ne"),
    "indexing": ("nn.functional.embedding", "index_put", "masked_scatter", "nonzero", "nonzero_static", "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "repeat_interleave", "take_along_dim", "__getitem__"),
    "scatters": ("gather", "index_select", "index_reduce", "scatter_reduce", "scatter_add"),
    "reductions": ("sum", "mean", "var_mean", "var", "hash_tensor"),
    "factorizations": ("linalg.qr", "linalg.lu", "linalg.lu_factor", "linalg.cholesky", "linalg.det", "linalg.slogdet", "geqrf", "ormqr", "lu_unpack", "linalg.householder_product"),
    "solvers": ("linalg.inv_ex", "linalg.solve_ex", "linalg.lu_solve", "linalg.solve_triangular", "triangular_solve", "cholesky_solve", "cholesky_inverse"),
    "searching": ("searchsorted", "bucketize"),
    "histograms": ("histc", "histogram", "histogramdd", "bincount"),
    "distances": ("cdist", "nn.functional.pdist"),
    "indefinite": ("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve"),
    "spectra": (),
    "random": (),
    "lists": ("split", "split_with_sizes", "chunk", "unsafe_chunk", "tensor_split", "unbind", "unbind_copy", "unsafe_split"),
    "distributions": (),
    "segments": ("_segment_reduce",),
    "uniques": ("unique", "unique_consecutive"),
    "pooling": ("nn.functional.avg_pool1d", "nn.functional.avg_pool2d", "nn.functional.avg_pool3d", "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d"),
    "max_pooling": ("nn.functional.max_pool2d", "nn.functional.max_pool3d", "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"),
    "upsampling": ("_upsample_bilinear2d_aa",),
    "bags": ("nn.functional.embedding_bag",),
    "grid_samplers": (),  # of small floats, torch computes positions in the small type: test_image_operators.py
}  # fmt: skip
"""Operators of the database that call those of a family."""
NOT_DONE = ("complex numbers have no parameter",)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """All families in one library."""
    return build_operators(tuple(FAMILIES), str(tmp_path_factory.mktemp("operators")))


@pytest.mark.parametrize("family", [name for name, samples in FAMILIES.items() if samples])
def test_samples_of_the_database(operators: Operators, family: str) -> None:
    findings = compare_samples(operators, FAMILIES[family])
    assert not findings.wrong
    assert [text for text in findings.refused if not text.endswith(NOT_DONE)] == []
    assert sum(findings.right.values()) > len(FAMILIES[family])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 6, 30, 37, 97, 128, 360, 1009, 1024])
def test_fourier_transforms_of_any_length(operators: Operators, length: int) -> None:
    x = torch.randn(3, length, dtype=torch.complex128)
    for forward in (True, False):
        got = operators.call("aten::_fft_c2c", x, [1], 0, forward)
        torch.testing.assert_close(got, torch.ops.aten._fft_c2c(x, [1], 0, forward))
    real = torch.randn(length, 3).t()
    got = operators.call("aten::_fft_r2c", real, [1], 1, True)
    assert_same_tensor(got, torch.ops.aten._fft_r2c(real, [1], 1, True))
    back = operators.call("aten::_fft_c2r", got, [1], 1, length)
    torch.testing.assert_close(back, real.contiguous(), rtol=1e-4, atol=1e-5)


_RANDOM: dict[str, tuple[Callable[[], Tensor], str, tuple[object, ...], dict[str, object]]] = {
    "rand": (lambda: torch.rand(5, 3), "aten::rand", ([5, 3],), {}),
    "rand f64": (lambda: torch.rand(9, dtype=torch.float64), "aten::rand", ([9],), {"dtype": torch.float64}),
    "rand bf16": (lambda: torch.rand(999, dtype=torch.bfloat16), "aten::rand", ([999],), {"dtype": torch.bfloat16}),
    "randn few": (lambda: torch.randn(7), "aten::randn", ([7],), {}),
    "randn": (lambda: torch.randn(3, 11), "aten::randn", ([3, 11],), {}),
    "rand c64": (lambda: torch.rand(3, 5, dtype=torch.complex64), "aten::rand", ([3, 5],), {"dtype": torch.complex64}),
    "randn c64": (lambda: torch.randn(3, 11, dtype=torch.complex64), "aten::randn", ([3, 11],), {"dtype": torch.complex64}),
    "randn c128": (lambda: torch.randn(5, dtype=torch.complex128), "aten::randn", ([5],), {"dtype": torch.complex128}),
    "randn f16": (lambda: torch.randn(37, dtype=torch.float16), "aten::randn", ([37],), {"dtype": torch.float16}),
    "randint": (lambda: torch.randint(-5, 9, [30]), "aten::randint.low", (-5, 9, [30]), {}),
    "randint wide": (lambda: torch.randint(-(2**63), 2**63 - 1, [9]), "aten::randint.low", (-(2**63), 2**63 - 1, [9]), {}),
    "randperm": (lambda: torch.randperm(100), "aten::randperm", (100,), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", _RANDOM)
def test_random_numbers_of_torchs_generator(operators: Operators, name: str) -> None:
    draw, operator, args, kwargs = _RANDOM[name]
    torch.manual_seed(7)
    operators.seed(7)
    for _ in range(3):
        assert_same_tensor(operators.call(operator, *args, **kwargs), draw())


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5), (5, 3), (0, 2)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_pseudoinverses(operators: Operators, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype)
    got = operators.call("aten::linalg_pinv.atol_rtol_tensor", x, atol=None, rtol=None, hermitian=False)
    torch.testing.assert_close(got, torch.linalg.pinv(x))


def test_singular_values_and_eigenvalues_without_vectors(operators: Operators) -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    values = operators.call("aten::_linalg_svd", x, compute_uv=False)[1]
    torch.testing.assert_close(values, torch.linalg.svdvals(x))
    square = x.mT @ x
    torch.testing.assert_close(
        operators.call("aten::_linalg_eigh", square, compute_v=False)[0], torch.linalg.eigvalsh(square)
    )
    torch.testing.assert_close(
        operators.call("aten::linalg_matrix_exp", square), torch.linalg.matrix_exp(square)
    )


def test_random_numbers_follow_the_order_of_memory(operators: Operators) -> None:
    x = torch.empty(4, 6).t()
    torch.manual_seed(3)
    operators.seed(3)
    assert_same_tensor(operators.call("aten::uniform", x, -2.0, 3.0), torch.ops.aten.uniform(x, -2.0, 3.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_empty_and_overlapping_inputs(operators: Operators, dtype: torch.dtype) -> None:
    x = torch.arange(60).reshape(3, 4, 5).to(dtype)
    inputs = [
        x.permute(2, 0, 1),
        x[:, 1::2],
        x[:0],
        x[0, 0].expand(4, 5),
        x.as_strided((3, 3), (1, 1)),
        x[0, 0, 0],
    ]
    for y in inputs:
        for name in ("aten::clone", "aten::abs", "aten::neg"):
            if name == "aten::clone" or dtype is not torch.bool:
                function = getattr(torch.ops.aten, name[6:])  # by string: a table's name
                assert_same_tensor(operators.call(name, y), function(y))
        assert_same_tensor(operators.call("aten::sum", y), torch.sum(y))
        if not dtype.is_complex and y.dim():
            got, want = (
                operators.call("aten::sort.stable", y, stable=True, dim=0),
                torch.sort(y, dim=0, stable=True),
            )
            assert_same_tensor(got[0], want[0])
            assert_same_tensor(got[1], want[1])


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("chunk", (3, 1)),
        ("chunk", (7, 0)),
        ("unsafe_chunk", (2, -1)),
        ("tensor_split.sections", (3, 1)),
        ("tensor_split.sections", (6, 0)),
        ("tensor_split.indices", ([1, -1, 9], 1)),
        ("tensor_split.indices", ([3, 1], 0)),
        ("split_copy.Tensor", (2, 1)),
        ("split_with_sizes_copy", ([1, 0, 4], 1)),
    ],
)
def test_lists_of_parts(operators: Operators, name: str, args: tuple[Any, ...]) -> None:
    base, _, overload = name.partition(".")
    for x in (torch.randn(4, 5), torch.randn(5, 4).t(), torch.randn(0, 5)):
        want = getattr(getattr(torch.ops.aten, base), overload or "default")(x, *args)  # by string: a table's
        got = operators.call(f"aten::{name}", x, *args, taken=[len(want)])
        for one, other in zip(got, want, strict=True):
            assert_same_tensor(one, other)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_scans_into_tensors(operators: Operators, name: str) -> None:
    x = torch.randn(5, 4).t()
    want = getattr(torch, name)(x, 1)  # by string: a table's name
    results = want if isinstance(want, tuple) else (want,)
    names = ("values", "indices") if len(results) == 2 else ("out",)
    made = {key: torch.zeros(8, 5, dtype=one.dtype)[::2] for key, one in zip(names, results, strict=True)}
    operators.call(f"aten::{name}.out", x, 1, **made)
    for one, other in zip(made.values(), results, strict=True):
        torch.testing.assert_close(one, other)
    made[names[0]] = torch.zeros(4, 5, dtype=torch.int16)
    if name in ("cumsum", "cumprod"):  # computed in that type
        return
    with pytest.raises(NativeError, match="the result has another element type"):
        operators.call(f"aten::{name}.out", x, 1, **made)


def test_sums_in_the_element_type_of_the_result(operators: Operators) -> None:
    x, out = torch.tensor([100, 100, 100], dtype=torch.int8), torch.zeros(3)
    operators.call("aten::cumsum.out", x, 0, out=out)
    assert out.tolist() == [100, 200, 300]
    with pytest.raises(NativeError, match="another element type"):
        operators.call("aten::cumsum.out", x, 0, dtype=torch.int64, out=out)
    with pytest.raises(NativeError, match="another size"):
        operators.call("aten::cumsum.out", x, 0, out=torch.zeros(4))


def test_writes_to_overlapping_memory(operators: Operators) -> None:
    x = torch.arange(8.0)
    operators.call("aten::copy_", x[1:], x[:-1])
    assert x.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("aten::cumsum", (torch.ones(2), 3), "dimension 3 of a tensor with 1 dimensions"),
        ("aten::topk", (torch.ones(2), 3), "k is 3, the dimension has 2 elements"),
        ("aten::view", (torch.ones(2, 3).t(), [6]), "no strides give these sizes"),
        ("aten::cat", ([torch.ones(2), torch.ones(2, 2)],), "the tensors have different ranks"),
        ("aten::as_strided", (torch.ones(2), [3], [1]), "the view is not within the storage"),
        ("aten::split.Tensor", (torch.ones(2), -1), "the size of a part is not positive"),
        ("aten::unbind.int", (torch.tensor(1.0),), "the tensor has no dimensions"),
        ("aten::_linalg_svd", (torch.full((2, 2), torch.inf),), "a matrix is not finite"),
        ("aten::_fft_r2c", (torch.ones(2, dtype=torch.float16), [0], 0, True), "no code for element type"),
    ],
)
def test_refuses_by_name(operators: Operators, name: str, args: tuple[object, ...], text: str) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call(name, *args)
    assert name in str(caught.value)
