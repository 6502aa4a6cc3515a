"""Random operators of the native runtime draw the numbers of torch's CPU generator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.native.database_calls import assert_same_tensor
from tests.native.operator_library import NativeError, Operators, build_operators

pytestmark = pytest.mark.conformance

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
CALLS: dict[str, tuple[object, ...]] = {
    "aten::rand_like": (),
    "aten::randn_like": (),
    "aten::randint_like": (50,),
    "aten::randint_like.low_dtype": (-3, 9),
    "aten::normal.Tensor_float": (0.5,),
    "aten::exponential": (1.5,),
    "aten::geometric": (0.3,),
    "aten::cauchy": (0.5, 2.0),
    "aten::log_normal": (0.5, 1.0),
    "aten::bernoulli": (),
    "aten::bernoulli.p": (0.3,),
    "aten::bernoulli.Tensor": (torch.tensor(0.4, dtype=torch.float64),),
    "aten::native_dropout": (0.3, True),
    "aten::poisson": (),
}
"""Operators, and their arguments after a tensor of probabilities."""


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Operators:
    return build_operators(("random", "distributions"), str(tmp_path_factory.mktemp("distributions")))


def _inputs(dtype: torch.dtype) -> Iterator[Tensor]:
    x = torch.rand(4, 6, dtype=torch.float64).to(dtype)
    yield from (x, x.t(), x[:, ::2], x[:0], x[0, 0], x[0, :3])
    yield torch.rand(2, 3, 4, 5, dtype=torch.float64).to(dtype).permute(0, 3, 1, 2)


def _compare(operators: Operators, name: str, *args: object) -> None:
    base, _, overload = name.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")  # by string: a table's name
    torch.manual_seed(7)
    operators.seed(7)
    for _ in range(2):
        want, got = function(*args), operators.call(name, *args)
        both = zip(got, want) if isinstance(want, tuple) else [(got, want)]
        for a, b in both:
            assert_same_tensor(a, b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_those_of_torch(operators: Operators, name: str, dtype: torch.dtype) -> None:
    for x in _inputs(dtype):
        _compare(operators, name, x * 30 if name == "aten::poisson" else x, *CALLS[name])


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers_with_tensors(operators: Operators, dtype: torch.dtype) -> None:
    mean, deviation = torch.rand(3, 1).to(dtype), torch.rand(20).to(dtype)
    _compare(operators, "aten::normal.Tensor_Tensor", mean, deviation)
    _compare(operators, "aten::normal.float_Tensor", 0.25, deviation)
    with pytest.raises(NativeError, match="a standard deviation is negative"):
        operators.call("aten::normal.Tensor_Tensor", mean, -deviation)


@pytest.mark.parametrize("dtype", FLOATS)
def test_samples_of_categories(operators: Operators, dtype: torch.dtype) -> None:
    for weights in (torch.rand(3, 9).to(dtype), torch.rand(9, 4).to(dtype).t(), torch.rand(12).to(dtype)):
        for count, replacement in ((1, False), (1, True), (4, False), (20, True)):
            _compare(operators, "aten::multinomial", weights, count, replacement)


@pytest.mark.parametrize("training", [True, False])
def test_random_leaky_rectifier(operators: Operators, training: bool) -> None:
    x = torch.randn(5, 7)
    name = "aten::rrelu_with_noise_functional"
    _compare(operators, name, x, torch.zeros_like(x), 0.1, 0.3, training)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8])
def test_bernoulli_in_place(operators: Operators, dtype: torch.dtype) -> None:
    for given in (0.3, torch.rand(6), torch.rand(4, 1, dtype=torch.float64)):
        name = "aten::bernoulli_.Tensor" if isinstance(given, Tensor) else "aten::bernoulli_.float"
        got, want = (torch.zeros(4, 6).to(dtype) for _ in range(2))
        torch.manual_seed(7)
        operators.seed(7)
        operators.call(name, got, given)
        assert_same_tensor(got, want.bernoulli_(given))


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("aten::bernoulli.p", (torch.ones(2), 2.0), "not in"),
        ("aten::exponential", (torch.ones(2), 0.0), "lambd is not positive"),
        ("aten::geometric", (torch.ones(2), 1.0), "not in"),
        ("aten::multinomial", (torch.ones(2), 3), "more samples than categories"),
        ("aten::multinomial", (-torch.ones(2), 1), "negative or not finite"),
        ("aten::poisson", (-torch.ones(2),), "a rate is negative"),
        (
            "aten::native_dropout",
            (torch.ones(2, dtype=torch.complex64), 0.5, True),
            "no code for element type c64",
        ),
    ],
)
def test_refuses_by_name(operators: Operators, name: str, args: tuple[object, ...], text: str) -> None:
    with pytest.raises(NativeError, match=text) as caught:
        operators.call(name, *args)
    assert name in str(caught.value)
