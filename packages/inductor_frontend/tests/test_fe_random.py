"""Random numbers: Inductor's values for the same seed, and Inductor's random state afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.observing import (
    Case,
    captured_paths,
    check_all_paths,
    check_forms,
    stock,
    together,
)
from torch import Tensor
from torch._inductor import config as inductor_config
from torch.nn import functional as F

from inductor_frontend import capture
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.errors import WirError

# Any in this file: models and their arguments.

EAGERS = since("2.13")
"""True if Inductor draws the numbers of eager mode when configured to. Before 2.13 it decomposes some operators
nevertheless (`rand_like` to `rand`), so that both stock torch.compile and this backend differ from eager
mode."""
UNTRACEABLE = "FE102" if since("2.13") else "FE101"
"""Code of the refusal of generators: before 2.13, torch.export itself refuses them."""


def _x(*sizes: int) -> Tensor:
    return torch.randn(*(sizes or (48,)), generator=torch.Generator().manual_seed(sum(sizes)))


def dropout(x: Tensor) -> Any:
    return F.dropout(x, 0.3) + F.dropout(x, 0.5), F.dropout2d(x.view(1, 4, 3, 4))


def dropout_in_place(x: Tensor) -> None:
    F.dropout(x, 0.5, inplace=True)


def factories(x: Tensor) -> Any:
    integers = torch.randint(0, 10, (5,)), torch.randint(5, (3,), dtype=torch.int32), torch.randperm(7)
    return torch.rand(5), torch.randn(5), torch.rand(3, dtype=torch.float64), torch.rand(0), integers


def like(x: Tensor) -> Any:
    wide = x.view(6, 8).t()
    return torch.rand_like(wide), torch.randn_like(x, dtype=torch.float64), torch.randint_like(x, 3, 9)


def bernoulli(x: Tensor) -> Any:
    p = torch.sigmoid(x)
    return torch.bernoulli(p), torch.bernoulli(p, 0.3), x.clone().bernoulli_(0.2), x.clone().bernoulli_(p)


def drawn_from_weights(x: Tensor) -> Any:
    return torch.multinomial(x.exp(), 5), torch.multinomial(x.exp(), 5, replacement=True)


def normal(x: Tensor) -> Any:
    deviation = x.abs() + 1
    return torch.normal(x, deviation), torch.normal(0.0, deviation), torch.normal(1.0, 2.0, (4,))


def counts(x: Tensor) -> Any:
    return torch.poisson(x.abs()), torch.binomial(torch.full((5,), 10.0), torch.full((5,), 0.4))


def gamma(x: Tensor) -> Any:
    return torch._sample_dirichlet(x.exp()), torch._standard_gamma(x.exp())


def in_place(x: Tensor) -> Any:
    return (
        x.clone().uniform_(1, 2),
        x.clone().normal_(2, 3),
        x.clone().exponential_(2.0),
        x.clone().cauchy_(),
        x.clone().geometric_(0.3),
        x.clone().log_normal_(),
    )


def in_place_on_an_argument(x: Tensor) -> Tensor:
    x.uniform_(-1, 1)
    y = x * 2
    x.exponential_()
    return y


def activations(x: Tensor) -> Any:
    return F.rrelu(x, training=True), F.gumbel_softmax(x), F.gumbel_softmax(x.view(6, 8), hard=True)


def keeping_moments(x: Tensor) -> Any:
    return F.alpha_dropout(x, 0.4, training=True), F.feature_alpha_dropout(x.view(1, 6, 8), training=True)


def pooling(x: Tensor) -> Any:
    return F.fractional_max_pool2d(x.view(1, 1, 6, 8), 2, output_size=(3, 4))


def attention(x: Tensor) -> Tensor:
    y = x.view(1, 2, 4, 6)
    return F.scaled_dot_product_attention(y, y, y, dropout_p=0.3)


def uniform_initialisation(x: Tensor) -> Tensor:
    return torch.nn.init.kaiming_uniform_(torch.empty(5, 10)) + torch.nn.init.xavier_normal_(
        torch.empty(5, 10)
    )


CASES = [
    dropout,
    dropout_in_place,
    factories,
    like,
    bernoulli,
    drawn_from_weights,
    normal,
    counts,
    gamma,
    in_place,
    in_place_on_an_argument,
    activations,
    keeping_moments,
    pooling,
    attention,
    uniform_initialisation,
]
ALL = together({f.__name__: Case(f, (_x(),)) for f in CASES})


@pytest.mark.slow
def test_values_are_those_of_torch_compile() -> None:
    artifact = check_all_paths(ALL, want=stock(ALL.function))
    assert [str(r.device) for r in artifact.signature.random] == ["cpu"]


@pytest.mark.slow
def test_values_are_eagers_where_inductor_falls_back() -> None:
    with inductor_config.patch(fallback_random=True):
        artifact = check_all_paths(ALL, want=None if EAGERS else stock(ALL.function))
    operators = {e.name for e in artifact.program.externs if ir.ExternTag.RANDOM in e.tags}
    assert {"aten::rand", "aten::cauchy", "aten::multinomial", "aten::native_dropout"} <= operators


def test_integers_in_place() -> None:
    """Dynamo leaves this operator to eager mode; a captured program calls it."""

    def function(x: Tensor, n: Tensor) -> Any:
        return x.clone().random_(17), n.clone().random_()

    case = Case(function, (_x(), torch.arange(5)))
    check_all_paths(case)

    def between(x: Tensor) -> Tensor:
        return x.clone().random_(3, 17)

    with pytest.raises(WirError, match=r"(?s)FE101.*random_.from.*hint.*add_"):
        capture(between, (_x(),))


@pytest.mark.slow
def test_how_random_numbers_are_drawn_is_part_of_what_is_compiled() -> None:
    """A cached graph or captured program of one mode is not used for the other."""

    def function(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    x, results = torch.zeros(4), {}
    for fallback in (False, True, False):
        with inductor_config.patch(fallback_random=fallback):
            torch._dynamo.reset()
            runs = captured_paths(capture(function, (x,)))
            runs["backend"] = torch.compile(function, backend="wrapper_ir")
            runs["stock"] = torch.compile(function)
            for name, run in runs.items():
                torch.manual_seed(9)
                results[name] = run(x)
        assert all(torch.equal(v, results["stock"]) for v in results.values())
        torch.manual_seed(9)
        assert torch.equal(results["stock"], function(x)) == fallback


def test_calls_go_on_where_the_last_one_stopped() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)

    x, compiled = torch.ones(64), stock(function)
    runs = captured_paths(capture(function, (x,)))
    runs["backend"] = torch.compile(function, backend="wrapper_ir")
    compiled(x)
    torch.manual_seed(4)
    want = [compiled(x) for _ in range(3)]
    for name, run in runs.items():
        torch.manual_seed(4)
        assert all(torch.equal(run(x), w) for w in want), name
    assert not torch.equal(want[0], want[1])


def test_compiling_draws_nothing() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.rand_like(x)

    torch.manual_seed(6)
    before = torch.get_rng_state()
    artifact = capture(function, (torch.zeros(4),))
    check_forms(artifact)
    captured_paths(artifact)
    assert torch.equal(torch.get_rng_state(), before)


class TestGenerators:
    """A generator of the model: graphs break at it, and a captured program cannot contain it."""

    def test_as_an_argument(self) -> None:
        def function(x: Tensor, generator: torch.Generator) -> Any:
            noise = torch.rand(4, generator=generator), torch.empty(4).normal_(generator=generator)
            return x + noise[0], noise[1], torch.multinomial(x, 2, generator=generator)

        results = []
        for run in (function, torch.compile(function, backend="wrapper_ir")):
            generator = torch.Generator().manual_seed(1)
            results.append([run(torch.ones(4), generator) for _ in range(2)])
        torch.testing.assert_close(*results)
        with pytest.raises(WirError, match=rf"(?s){UNTRACEABLE}.*Generator.*hint.*torch.compile"):
            capture(function, (torch.ones(4), torch.Generator()))

    def test_from_outside(self) -> None:
        generator = torch.Generator()

        def function(x: Tensor) -> Tensor:
            return x + torch.rand(4, generator=generator)

        results = []
        for run in (function, torch.compile(function, backend="wrapper_ir")):
            generator.manual_seed(1)
            results.append([run(torch.ones(4)) for _ in range(2)])
        torch.testing.assert_close(*results)
        with pytest.raises(WirError, match=rf"(?s){UNTRACEABLE}.*Generator.*hint"):
            capture(function, (torch.ones(4),))


def _in_training(run: Callable[..., Any], x: Tensor) -> tuple[Tensor, ...]:
    mine = x.clone().requires_grad_()
    torch.manual_seed(7)
    loss = run(mine)
    between = torch.get_rng_state()
    loss.backward()
    assert mine.grad is not None
    return loss.detach(), mine.grad, between, torch.get_rng_state()


def _noisy(x: Tensor) -> Tensor:
    noise = torch.empty_like(x).uniform_(-1, 1) + torch.empty_like(x).exponential_()
    y = F.dropout(x, 0.4) + F.rrelu(x, training=True) + noise * x
    return (
        y + F.gumbel_softmax(x) + F.alpha_dropout(x, 0.3, training=True) + torch.bernoulli(x.sigmoid())
    ).sum()


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [False, True], ids=["Inductor's", "eager's"])
def test_gradients_see_what_forward_drew(fallback: bool) -> None:
    """The masks of the backward graph are those of the forward graph, drawn once."""
    with inductor_config.patch(fallback_random=fallback):
        oracle = _noisy if fallback and EAGERS else stock(_noisy)
        want = _in_training(oracle, _x(8))
        torch._dynamo.reset()
        compiled = torch.compile(_noisy, backend="wrapper_ir")
        for _ in range(2):
            got = _in_training(compiled, _x(8))
            torch.testing.assert_close(got, want)
