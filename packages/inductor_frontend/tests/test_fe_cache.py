"""The backend's cache returns compiled functions: equal results, no lowering, no tracing by autograd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config

from inductor_frontend.cache import stats


@pytest.fixture(autouse=True)
def _fresh() -> None:
    counters.clear()
    torch.manual_seed(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def ours(function: Any, folder: Path, **kwargs: Any) -> Any:
    """Compiles `function` by the backend with a cache in `folder`, as a new process would: nothing is in
    memory."""
    torch._dynamo.reset()
    counters.clear()
    options: dict[str, Any] = {"cache": str(folder), **kwargs.pop("options", {})}
    return torch.compile(function, backend="wrapper_ir", options=options, **kwargs)


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 2))


def trained(model: nn.Module, function: Any) -> list[Tensor]:
    """Loss, gradients and buffers after two steps."""
    x = torch.linspace(-1, 1, 24).reshape(6, 4)
    for _ in range(2):
        loss = function(x).square().mean()
        torch.autograd.backward(loss)
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]


class TestFound:
    def test_training(self, folder: Path) -> None:
        want = trained(model := net(), model)
        for hits in (0, 1):
            model = net()
            got = trained(model, ours(model, folder))
            assert (stats().function_hits, stats().lowered) == (hits, 0 if hits else 2)
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b)

    def test_a_backward_graph_is_kept_when_it_has_run(self, folder: Path) -> None:
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        ours(matmul, folder)(x, w)
        assert not list(folder.glob("*/functions/*/*"))
        ours(matmul, folder)(x, w).sum().backward()
        assert (stats().function_hits, stats().graph_hits, stats().lowered) == (0, 1, 1)
        ours(matmul, folder)(x, w).sum().backward()
        assert (stats().function_hits, stats().lowered) == (1, 0)

    def test_views_and_writes(self, folder: Path) -> None:
        def function(x: Tensor) -> tuple[Tensor, ...]:
            x.mul_(2)
            flat = x.view(2, 12).t()[1:3]
            return flat.unsqueeze(0), x[0], x.permute(1, 0).expand(3, 4, 6), x.chunk(2, -1)[1], x + 1

        for hits in (0, 1):
            mine, theirs = torch.ones(6, 4), torch.ones(6, 4)
            got, want = ours(function, folder)(mine), function(theirs)
            assert stats().function_hits == hits
            for a, b in zip((mine, *got), (theirs, *want), strict=True):
                torch.testing.assert_close(a, b)
                assert a.stride() == b.stride()
            assert all(
                t.data_ptr() - mine.data_ptr() == u.data_ptr() - theirs.data_ptr()
                for t, u in zip(got[:4], want)
            )

    def test_symbolic_sizes_and_their_guards(self, folder: Path) -> None:
        """A size that autograd or lowering specialized is guarded as in a new compilation."""

        def function(x: Tensor, w: Tensor) -> Tensor:
            return x.reshape(-1, 2, 4).sum(1) @ w if x.shape[0] > 6 else x @ w

        calls = []
        for hits in (0, 1):
            compiled = ours(function, folder, dynamic=True)
            w = torch.randn(4, 2, requires_grad=True)
            for batch in (8, 10, 4, 6, 12):
                x = torch.randn(batch, 4)
                got = compiled(x, w)
                torch.testing.assert_close(got, function(x, w))
                torch.autograd.backward(got.sum())
            assert bool(stats().lowered) != bool(hits)
            assert bool(stats().function_hits) == bool(hits)
            calls.append(counters["stats"]["unique_graphs"])
        assert calls[0] == calls[1], "the same number of compilations, so the same guards"

    def test_numbers_and_nothing(self, folder: Path) -> None:
        def function(x: Tensor, n: int) -> tuple[Tensor, int, None]:
            return x * n, n + x.size(0), None

        for hits in (0, 1):
            compiled = ours(function, folder, dynamic=True)
            for n in (3, 4):
                got = compiled(torch.ones(n), n)
                torch.testing.assert_close(got[0], torch.full((n,), float(n)))
                assert got[1:] == (2 * n, None)
            assert stats().function_hits == hits

    def test_contexts(self, folder: Path) -> None:
        """inference mode, autocast, and constants of the graph."""

        def function(x: Tensor, w: Tensor) -> Tensor:
            return x @ w + torch.tensor([1.0, 2.0])

        x, w = torch.randn(3, 4), torch.randn(4, 2)
        for hits in (0, 1):
            with torch.inference_mode():
                got = ours(function, folder)(x, w)
                assert got.is_inference()
                assert stats().function_hits == hits
            torch.testing.assert_close(got.clone(), function(x, w))
            with torch.autocast("cpu", torch.bfloat16):
                got = ours(function, folder)(x, w)
                assert stats().function_hits == hits
                torch.testing.assert_close(got, function(x, w))

    def test_checkpoints_and_functions_of_autograd(self, folder: Path) -> None:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> Tensor:
                return grad * 3

        def function(x: Tensor, w: Tensor) -> Tensor:
            inner = torch.utils.checkpoint.checkpoint(matmul, x, w, use_reentrant=False)
            return Double.apply(inner).sum()  # type: ignore[no-untyped-call, no-any-return]  # torch's

        for hits in (0, 1):
            x, w = torch.ones(3, 4), torch.ones(4, 2, requires_grad=True)
            torch.autograd.backward(ours(function, folder)(x, w))
            torch.testing.assert_close(w.grad, torch.full((4, 2), 9.0))
            assert (stats().function_hits, stats().lowered) == (hits, 0 if hits else 2)

    def test_random_numbers_are_drawn_when_run(self, folder: Path) -> None:
        results = []
        for _ in range(2):
            compiled = ours(lambda x: nn.functional.dropout(x, 0.5), folder)
            torch.manual_seed(7)
            results += [compiled(torch.ones(64)), compiled(torch.ones(64))]
        assert stats().function_hits == 1
        torch.testing.assert_close(results[0], results[2])
        torch.testing.assert_close(results[1], results[3])
        assert not torch.equal(results[0], results[1])


class TestNotCached:
    def bypasses(self, folder: Path, function: Any, *args: Any) -> list[str]:
        got = ours(function, folder)(*args)
        torch._dynamo.reset()
        torch.testing.assert_close(got, function(*args))
        assert stats().function_hits == 0
        return list(stats().bypasses)

    def test_custom_operators(self, folder: Path) -> None:
        """Autograd traces their Python code, which no key contains; later graphs contain only a call."""
        with torch.library._scoped_library("fe_cache", "FRAGMENT") as library:
            library.define("triple(Tensor x) -> Tensor")
            library.impl("triple", lambda x: x * 3, "CPU")
            library.impl("triple", torch.empty_like, "Meta")

            def function(x: Tensor) -> Tensor:
                result: Tensor = torch.ops.fe_cache.triple(x)
                return result

            for hits in (0, 1):
                assert self.bypasses(folder, function, torch.ones(3)) == [
                    "function: custom operator fe_cache.triple"
                ]
                assert stats().graph_hits == hits

    def test_operators_of_torch_that_somebody_changed(self, folder: Path) -> None:
        with torch.library._scoped_library("aten", "IMPL") as library:
            library.impl("sinh", lambda x: torch.sin(x), "CompositeImplicitAutograd", allow_override=True)
            ours(matmul, folder)(torch.ones(3, 4), torch.ones(4, 2))
            assert "function: a Python kernel for aten/sinh/CompositeImplicitAutograd" in stats().bypasses
        ours(matmul, folder)(torch.ones(3, 4), torch.ones(4, 2))
        assert stats().function_misses == 1

    def test_functions_of_the_user(self, folder: Path) -> None:
        def opaque(x: Tensor) -> Tensor:
            return x + 1

        torch.compiler.allow_in_graph(opaque)  # type: ignore[no-untyped-call]  # torch's
        [reason] = self.bypasses(folder, lambda x: opaque(x), torch.ones(3))
        assert "opaque" in reason

    def test_passes_of_the_user(self, folder: Path) -> None:
        with inductor_config.patch(post_grad_custom_post_pass=lambda graph: None):
            [reason, again] = self.bypasses(folder, matmul, torch.ones(3, 4), torch.ones(4, 2))
        assert "post_grad_custom_post_pass" in reason
        assert "post_grad_custom_post_pass" in again

    def test_hooks_on_saved_tensors(self, folder: Path) -> None:
        x, w = torch.ones(3, 4), torch.ones(4, 2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            ours(matmul, folder)(x, w)
        assert "function: hooks on saved tensors" in stats().bypasses

    def test_inputs_that_share_memory_and_are_written(self, folder: Path) -> None:
        def function(a: Tensor, b: Tensor) -> Tensor:
            a.add_(1)
            return a + b

        for _ in range(2):
            base = torch.ones(6)
            torch.testing.assert_close(
                ours(function, folder)(base[:3], base[1:4]), torch.tensor([4.0, 4.0, 3.0])
            )
            assert "function: inputs that share memory" in stats().bypasses
