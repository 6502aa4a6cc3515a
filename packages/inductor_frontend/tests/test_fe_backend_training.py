"""Training through the backend behaves as through Inductor, with and without the backend's cache: the time of
compilations, repeated calls, refusals, the state after failures."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_frontend import BackendError
from inductor_frontend.backend import lowered
from inductor_frontend.cache import stats
from inductor_frontend.translate.program import build_program

Compile = Callable[..., Any]


@pytest.fixture(params=[False, True], ids=["plain", "cached"])
def compiled(request: pytest.FixtureRequest, tmp_path: Path) -> Compile:
    """`torch.compile` with the backend; "cached": with a cache folder, so that backward graphs are compiled
    when called."""
    cache = str(tmp_path) if request.param else False

    def compile(function: Any, **kwargs: Any) -> Any:
        return torch.compile(function, backend="wrapper_ir", options={"cache": cache}, **kwargs)

    return compile


@pytest.fixture(autouse=True)
def _fresh_counts() -> None:
    counters.clear()
    torch.manual_seed(0)


def saves_an_intermediate(x: Tensor, w: Tensor) -> Tensor:
    """Forward saves a tensor without other references, so that backward may overwrite it."""
    return ((x @ w).sin() @ w).sum()


def arguments() -> tuple[Tensor, Tensor]:
    return torch.randn(5, 4), torch.randn(4, 4, requires_grad=True)


def gradient(function: Any, x: Tensor, w: Tensor) -> Tensor:
    (result,) = torch.autograd.grad(function(x, w), w)
    return result


class TestBackwardIsCompiledWhenCalled:
    def test_not_before(self, compiled: Compile) -> None:
        x, w = arguments()
        loss = compiled(saves_an_intermediate)(x, w)
        assert stats().lowered == 1
        torch.autograd.backward(loss)
        assert stats().lowered == 2
        torch.testing.assert_close(w.grad, gradient(saves_an_intermediate, x, w))

    def test_with_the_forward_graph_where_sizes_are_symbolic(self, compiled: Compile) -> None:
        x, w = arguments()
        loss = compiled(saves_an_intermediate, dynamic=True)(x, w)
        assert stats().lowered == 2
        torch.autograd.backward(loss)
        torch.testing.assert_close(w.grad, gradient(saves_an_intermediate, x, w))

    def test_by_several_threads_once(self, tmp_path: Path) -> None:
        x, w = arguments()
        function = torch.compile(
            saves_an_intermediate, backend="wrapper_ir", options={"cache": str(tmp_path)}
        )
        losses = [function(x, w) for _ in range(4)]
        results: list[Tensor] = []

        def run(loss: Tensor) -> None:
            results.extend(torch.autograd.grad(loss, w))

        threads = [threading.Thread(target=run, args=(loss,)) for loss in losses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        assert stats().lowered == 2
        for one in results:
            torch.testing.assert_close(one, gradient(saves_an_intermediate, x, w))


def retained(backend: Compile, *, first: bool) -> str:
    """Calls that keep the saved tensors of a backward graph, as the first call or a later one."""
    torch._dynamo.reset()
    x, w = arguments()
    function = backend(saves_an_intermediate)
    if not first:
        gradient(function, x, w)
    loss = function(x, w)
    try:
        torch.autograd.grad(loss, w, retain_graph=True)
        (twice,) = torch.autograd.grad(loss, w)
    except RuntimeError as error:
        return f"refused, naming the way out: {'donated_buffer' in str(error)}"
    torch.testing.assert_close(twice, gradient(saves_an_intermediate, x, w))
    return "correct"


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
def test_kept_graphs_as_inductor(compiled: Compile, first: bool) -> None:
    got = retained(compiled, first=first)
    with functorch_config.patch(enable_autograd_cache=False):  # Inductor's behaviour depends on it
        assert got == retained(torch.compile, first=first)
    assert got == ("correct" if first else "refused, naming the way out: True")


def test_kept_graphs_out_of_the_cache(tmp_path: Path) -> None:
    """An entry includes whether the graph overwrites: compiled with retain_graph, it always supports
    retain_graph."""

    def backend(function: Any) -> Any:
        return torch.compile(function, backend="wrapper_ir", options={"cache": str(tmp_path)})

    assert retained(backend, first=True) == "correct"
    assert retained(backend, first=True) == "correct"
    assert stats().function_hits == 1
    assert stats().lowered == 2


def test_kept_graphs_where_nothing_is_overwritten(compiled: Compile) -> None:
    with functorch_config.patch(donated_buffer=False):
        assert retained(compiled, first=False) == "correct"


def overlapping_views(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """Saves two views of `y` that share a row, and not `y`."""
    y = x.sin()
    return (((w * y[0:3]) @ v) * y[2:5]).square().sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_saved_views_that_overlap_are_not_written_over(compiled: Compile, dynamic: bool) -> None:
    """Inductor overwrites one of them with its gradient, and then reads the other."""
    x, w, v = torch.randn(100, 8), torch.randn(3, 8, requires_grad=True), torch.randn(8, 8)
    for tensor, dims in ((x, 1), (w, 1), (v, [0, 1])) if dynamic else ():
        torch._dynamo.mark_dynamic(tensor, dims)
    (want,) = torch.autograd.grad(overlapping_views(x, w, v), w)
    (got,) = torch.autograd.grad(compiled(overlapping_views)(x, w, v), w)
    torch.testing.assert_close(got, want)


def test_second_derivatives_are_refused_as_by_inductor(compiled: Compile) -> None:
    messages = []
    for backend in (torch.compile, compiled):
        torch._dynamo.reset()
        x = torch.randn(5, requires_grad=True)
        with functorch_config.patch(donated_buffer=False):
            (first,) = torch.autograd.grad(backend(lambda x: (x * x * x).sum())(x), x, create_graph=True)
            with pytest.raises(RuntimeError) as caught:
                torch.autograd.backward(first.sum())
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


class TestMemory:
    def test_saved_tensors_die_during_backward(self, compiled: Compile) -> None:
        """Each layer's saved tensor can be freed after its use: the argument list is its last reference."""
        freed: list[int] = []

        x, w = arguments()
        loss = compiled(saves_an_intermediate)(x, w)
        saved = [t for t in loss.grad_fn.saved_tensors if t is not w]
        assert saved
        watched = [weakref.finalize(t, freed.append, 1) for t in saved]
        del saved
        torch.autograd.backward(loss)
        del loss
        assert len(freed) == len(watched)

    def test_waiting_graphs_are_forgotten_once_compiled(self, tmp_path: Path) -> None:
        graphs: list[weakref.ref[Any]] = []
        real = lowered.compile_anew

        def spy(request: Any, *args: Any) -> Any:
            graphs.append(weakref.ref(request.gm))
            return real(request, *args)

        x, w = arguments()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lowered, "compile_anew", spy)
            function = torch.compile(
                saves_an_intermediate, backend="wrapper_ir", options={"cache": str(tmp_path)}
            )
            torch.autograd.backward(function(x, w))
        gc.collect()
        assert len(graphs) == 2
        assert [g() for g in graphs] == [None, None]


class TestFailures:
    def test_in_a_forward_graph(self, compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check(compiled, monkeypatch, "forward")

    def test_in_a_backward_graph(self, compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check(compiled, monkeypatch, "backward")

    def check(self, compiled: Compile, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
        """A failed compilation changes no option or random state, and leaves no lock or entry; the next one
        works."""
        x, w = arguments()
        compiled(torch.sin)(x)  # torch registers its own backends once
        before = self.state()
        real = build_program

        def fail(graph: Any, *args: Any) -> Any:
            if graph.is_backward == (where == "backward"):
                raise BackendError("FE499", "the build fails on purpose")
            return real(graph, *args)

        function = compiled(saves_an_intermediate)
        with monkeypatch.context() as patch:
            patch.setattr(lowered, "build_program", fail)
            with pytest.raises(Exception, match="FE499"):
                torch.autograd.backward(function(x, w))
        assert self.state() == before
        torch.compiler.reset()
        torch.testing.assert_close(gradient(function, x, w), gradient(saves_an_intermediate, x, w))

    def state(self) -> tuple[Any, ...]:
        return (
            inductor_config.get_config_copy(),
            functorch_config.get_config_copy(),
            torch.get_rng_state().tolist(),
            torch.is_grad_enabled(),
            torch._guards.TracingContext.try_get(),
        )

    def test_a_backward_graph_that_failed_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any) -> Any:
            raise BackendError("FE499", "on purpose")

        x, w = arguments()
        function = torch.compile(
            saves_an_intermediate, backend="wrapper_ir", options={"cache": str(tmp_path)}
        )
        losses = [function(x, w), function(x, w)]
        with monkeypatch.context() as patch:
            patch.setattr(lowered, "build_program", fail)
            with pytest.raises(BackendError, match="FE499"):
                torch.autograd.backward(losses[0])
        with pytest.raises(BackendError, match=r"FE402.*FE499"):
            torch.autograd.backward(losses[1])


class TestCompiledAutograd:
    @pytest.fixture(autouse=True)
    def _off_afterwards(self) -> Iterator[None]:
        yield
        torch._dynamo.config.compiled_autograd = False

    def test_whole_steps(self, compiled: Compile) -> None:
        x, w = arguments()
        torch._dynamo.config.compiled_autograd = True  # read by torch.compile
        function = compiled(saves_an_intermediate)

        @torch.compile(backend="eager")
        def step(x: Tensor, w: Tensor) -> None:
            torch.autograd.backward(function(x, w))

        step(x, w)
        assert counters["compiled_autograd"]["captures"] == 1
        torch.testing.assert_close(w.grad, gradient(saves_an_intermediate, x, w))

    def test_too_late_for_a_function_out_of_the_cache(self, tmp_path: Path) -> None:
        x, w = arguments()
        function = torch.compile(
            saves_an_intermediate, backend="wrapper_ir", options={"cache": str(tmp_path)}
        )
        torch.autograd.backward(function(x, w))
        torch._dynamo.reset()
        loss = function(x, w)
        assert stats().function_hits == 1
        with (
            torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")),
            pytest.raises(BackendError, match="FE403"),
        ):
            torch.autograd.backward(loss)


def test_batchnorm_and_dropout_learn_as_in_eager_mode(compiled: Compile) -> None:
    """Buffers are written, and random numbers are drawn at run time: each step has another mask."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    function = compiled(copy.deepcopy(model))
    x = torch.randn(16, 4)
    losses = [function(x).square().mean() for _ in range(2)]
    torch.autograd.backward(losses[-1])
    assert losses[0].item() != losses[1].item()
    model(x)
    model(x)
    for (name, mine), (_, theirs) in zip(function.named_buffers(), model.named_buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, msg=partial("{}: {}".format, name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [lambda x: x * x.conj(), lambda x: (x * 2).imag * x.conj().imag], ids=["conj", "neg"]
)
def test_lazily_conjugated_tensors_are_saved(compiled: Compile, function: Compile) -> None:
    """Autograd saves `x.conj()` as a view of the memory of `x`. The second round uses the cache, if there is
    one."""
    x = torch.randn(4, 2, dtype=torch.complex64, requires_grad=True)
    (expected,) = torch.autograd.grad(function(x).abs().sum(), x)
    for _ in range(2):
        torch._dynamo.reset()
        (actual,) = torch.autograd.grad(compiled(function)(x).abs().sum(), x)
        torch.testing.assert_close(actual, expected)
