"""Inductor compiles graphs that the backend cannot compile, unless `on_unsupported` is `error`."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch._dynamo.source import ConstantSource
from torch._dynamo.utils import counters
from torch._inductor.exc import InductorError
from torch.fx import symbolic_trace
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from inductor_frontend import CaptureError
from inductor_frontend.backend import BackendOptions, lowered
from inductor_frontend.backend.graph_copy import GraphCopy, SymbolSnapshot
from inductor_frontend.cache import stats
from inductor_frontend.errors import FallbackWarning
from inductor_frontend.record import lowering
from inductor_frontend.settings import read_settings
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import emitter


@pytest.fixture(scope="module")
def inductors_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Inductor's compiled libraries, shared because several tests compile the same kernels."""
    return tmp_path_factory.mktemp("inductor")


@pytest.fixture(autouse=True)
def _fresh(inductors_folder: Path) -> Iterator[None]:
    counters.clear()
    torch.manual_seed(0)
    with torch._inductor.utils.fresh_cache(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(inductors_folder))
        yield
        for graphs in ("fxgraph", "aotautograd"):
            shutil.rmtree(inductors_folder / graphs, ignore_errors=True)


@torch.library.custom_op("fallback_tests::packed", mutates_args=())
def packed(x: Tensor) -> Tensor:
    """Tenths, in a dtype that the IR lacks and that each supported torch traces and prints."""
    return (x * 10).round().to(torch.int16).view(torch.bits16)


@packed.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=torch.bits16)


@torch.library.custom_op("fallback_tests::unpacked", mutates_args=())
def unpacked(x: Tensor) -> Tensor:
    """Returns the input of `packed`."""
    return x.view(torch.int16) / 10


@unpacked.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=torch.float32)


def rounded(x: Tensor) -> Tensor:
    """Computes through an element type that the IR lacks."""
    result: Tensor = unpacked(packed(x.detach()))
    return result


class RoundedGradient(torch.autograd.Function):
    """A function of which only the backward graph is refused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The sine, and its argument for backward."""
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """A rounded gradient."""
        return rounded(grads[0] * ctx.saved_tensors[0].cos())


def with_rounded_gradient(x: Tensor) -> Tensor:
    """A function of which only the backward graph is refused."""
    sine: Tensor = RoundedGradient.apply(x)  # type: ignore[no-untyped-call]  # torch's
    return sine * x.cos()


def compiled(function: Callable[..., Any], cache: bool | Path = False, **options: Any) -> Callable[..., Any]:
    """Compiles `function` by the backend, with a fallback to Inductor."""
    all_options: dict[str, Any] = {"cache": cache, "on_unsupported": "inductor", **options}
    return torch.compile(function, backend="wrapper_ir", options=all_options)


def fallbacks() -> dict[str, int]:
    """The counts so far."""
    return dict(counters["wrapper_ir_fallback"])


def test_a_refused_graph_is_compiled_by_inductor() -> None:
    x = torch.randn(8, 8)
    with pytest.warns(FallbackWarning, match=r"(?s)FE360.*FE305.*bits16.*on_unsupported.*error") as caught:
        got = compiled(lambda x: rounded(x) + x)(x)
    torch.testing.assert_close(got, rounded(x) + x)
    assert len([w for w in caught if w.category is FallbackWarning]) == 1
    assert fallbacks() == {"graphs": 1, "FE305": 1}


def test_what_can_be_compiled_is_not_counted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.sin)(torch.randn(3))
    assert fallbacks() == {}


def test_an_error_where_one_is_wanted() -> None:
    with pytest.raises(Exception, match=r"FE305.*bits16"):
        compiled(rounded, on_unsupported="error")(torch.randn(3))
    assert fallbacks() == {}


def test_the_choice() -> None:
    assert BackendOptions().on_unsupported == "inductor"
    assert read_settings({}).on_unsupported == "inductor"
    assert read_settings({"WRAPPER_IR_ON_UNSUPPORTED": "error"}).on_unsupported == "error"
    assert BackendOptions.parse({}).on_unsupported == "error"  # as all tests have it
    assert BackendOptions.parse({"on_unsupported": "inductor"}).on_unsupported == "inductor"
    with pytest.raises(CaptureError, match=r"FE103.*'on_unsupported' is 'eager'"):
        BackendOptions.parse({"on_unsupported": "eager"})
    with pytest.raises(CaptureError, match=r"FE103.*WRAPPER_IR_ON_UNSUPPORTED is 'eager'"):
        read_settings({"WRAPPER_IR_ON_UNSUPPORTED": "eager"})


@pytest.mark.filterwarnings("ignore::inductor_frontend.errors.FallbackWarning")
class TestSizes:
    def test_sizes_of_inputs(self) -> None:
        function = compiled(lambda x: rounded(x).reshape(-1, 2) + 1)
        for rows in (4, 6, 10, 2):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(function(x), rounded(x).reshape(-1, 2) + 1)

    @pytest.mark.slow
    def test_sizes_of_results(self) -> None:
        def chosen(x: Tensor) -> Tensor:
            return rounded(x[x > 0]) * 2

        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            function = compiled(chosen)
            for rows in (4, 6, 10):
                x = torch.randn(rows, 3)
                torch.testing.assert_close(function(x), chosen(x))
        assert fallbacks()["FE305"] >= 1

    def test_control_flow(self) -> None:
        def branches(x: Tensor) -> Tensor:
            result: Tensor = torch.cond(x.sum() > 0, lambda x: rounded(x) + 1, lambda x: x.sin(), (x,))
            return result

        function = compiled(branches)
        for x in (torch.ones(4, 3), -torch.ones(4, 3)):
            torch.testing.assert_close(function(x), branches(x))
        assert fallbacks()["FE305"] == 1


@pytest.mark.filterwarnings("ignore::inductor_frontend.errors.FallbackWarning")
@pytest.mark.parametrize("cached", [False, True])
class TestTraining:
    def gradients(self, function: Callable[..., Any], x: Tensor) -> tuple[Tensor, Tensor]:
        """The result and the gradient of its sum."""
        x = x.clone().requires_grad_()
        y = function(x)
        y.sum().backward()
        assert x.grad is not None
        return y.detach(), x.grad

    def equal(self, cached: bool, tmp_path: Path, model: Callable[..., Any], calls: int = 3) -> None:
        """Results and gradients of several calls are those of eager mode."""
        function = compiled(model, tmp_path if cached else False)
        for _ in range(calls):
            x = torch.randn(5, 4)
            torch.testing.assert_close(self.gradients(function, x), self.gradients(model, x))

    def test_a_refused_forward_graph(self, cached: bool, tmp_path: Path) -> None:
        self.equal(cached, tmp_path, lambda x: (rounded(x) + x.sin()) * x)
        assert fallbacks() == {"graphs": 1, "FE305": 1}
        assert stats().stored == 0

    @pytest.mark.slow
    def test_a_refused_backward_graph(self, cached: bool, tmp_path: Path) -> None:
        self.equal(cached, tmp_path, with_rounded_gradient)
        assert fallbacks() == {"graphs": 1, "FE305": 1}

    def test_both_graphs_are_inductors_then(
        self, cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The forward graph is ours for one call: until the backward graph is refused."""
        compile = lowered.compile_anew
        kinds: list[bool] = []

        def counting(request: Any, *args: Any) -> Any:
            kinds.append(request.is_backward)
            return compile(request, *args)

        runs: list[str] = []

        @dataclass
        class Telling:
            name: str = "telling"

            def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
                program = emitter("python").compile(artifact, guarded)
                run = program.boxed

                class Told:
                    def boxed(self, args: list[Any]) -> Any:
                        runs.append("ours")
                        return run(args)

                return Told()  # type: ignore[return-value]  # all that the backend calls

        monkeypatch.setattr(lowered, "compile_anew", counting)
        function = compiled(with_rounded_gradient, tmp_path if cached else False, emitter=Telling())
        for _ in range(3):
            self.gradients(function, torch.randn(5, 4))
        assert kinds == [False, True]
        assert runs == ["ours"]

    def test_saved_twice(self, cached: bool, tmp_path: Path) -> None:
        """Inductor's backward graph can run again if its memory is retained."""
        x = torch.randn(5, 4, requires_grad=True)
        y = compiled(with_rounded_gradient, tmp_path if cached else False)(x)
        y.sum().backward(retain_graph=True)
        first = x.grad
        assert first is not None
        first = first.clone()
        y.sum().backward()
        torch.testing.assert_close(x.grad, 2 * first)


@pytest.mark.filterwarnings("ignore::inductor_frontend.errors.FallbackWarning")
class TestCaches:
    def test_nothing_is_stored(self, tmp_path: Path) -> None:
        x = torch.randn(8)
        for _ in range(2):
            torch._dynamo.reset()
            torch.testing.assert_close(compiled(rounded, tmp_path)(x), rounded(x))
        assert fallbacks()["FE305"] == 2
        assert stats().stored == 0
        assert stats().graph_hits == stats().function_hits == 0

    def test_stock_code_is_its_own(self, tmp_path: Path) -> None:
        """Neither loads the other's functions from autograd's cache, in either order."""
        x = torch.randn(8)
        compiled(rounded, tmp_path)(x)
        counters["aot_autograd"].clear()
        for _ in range(2):
            torch._dynamo.reset()
            torch.testing.assert_close(torch.compile(rounded)(x), rounded(x))
        group = counters["aot_autograd"]
        assert (group["autograd_cache_miss"], group["autograd_cache_hit"]) == (1, 1)
        torch._dynamo.reset()
        compiled(rounded, tmp_path)(x)
        assert fallbacks()["FE305"] == 2

    def test_the_process_keeps_its_options(self, tmp_path: Path) -> None:
        """Inductor compiles with the options of the process, not with those of a capture."""
        values: list[object] = []

        def watching(graph: torch.fx.Graph) -> None:
            values.append(torch._inductor.config.allow_buffer_reuse)

        with torch._inductor.config.patch(post_grad_custom_post_pass=watching):
            compiled(rounded)(torch.randn(8))
        assert values == [False, True]


@pytest.mark.filterwarnings("ignore::inductor_frontend.errors.FallbackWarning")
class TestFaults:
    def test_an_exception_without_a_code(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError("ours")

        monkeypatch.setattr(lowered, "compile_anew", fail)
        for choice in ("inductor", "error"):
            counters.clear()
            caplog.clear()
            torch._dynamo.reset()
            with pytest.raises(Exception, match="ours"):
                compiled(torch.sin, on_unsupported=choice)(torch.randn(3))
            assert fallbacks() == {"faults": 1}
            assert any(r.exc_info and r.exc_info[0] is ZeroDivisionError for r in caplog.records)

    def test_an_exception_inside_inductor(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Capture reports FE104, as for an error of Inductor's own checks."""

        def fail(*_: Any) -> Any:
            raise ZeroDivisionError("ours")

        monkeypatch.setattr(lowering, "keep_old_values", fail)
        x = torch.randn(3)
        torch.testing.assert_close(compiled(torch.sin)(x), x.sin())
        assert fallbacks() == {"graphs": 1, "FE104": 1, "faults": 1}
        assert any(r.levelno == logging.ERROR and r.exc_info for r in caplog.records)

    def test_inductor_refuses_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Inductor's exception is raised, and no fallback is counted."""

        def fail(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("theirs")

        monkeypatch.setitem(torch._inductor.lowering.lowerings, torch.ops.aten.sin.default, fail)
        for function in (torch.compile(torch.sin), compiled(torch.sin)):
            torch._dynamo.reset()
            with pytest.raises(InductorError, match="theirs"):
                function(torch.randn(3))
        assert fallbacks() == {}

    def test_mistakes_are_told(self) -> None:
        with pytest.raises(Exception, match=r"FE401.*nowhere"):
            compiled(torch.sin, emitter="nowhere")(torch.randn(3))

    @pytest.mark.parametrize("error", [NotSupportedError("WIR910", "no"), ZeroDivisionError("no")])
    def test_emitters(self, error: Exception) -> None:
        """A graph that an emitter refuses falls back; a fault in the emitter does not."""

        @dataclass
        class Refusing:
            name: str = "refusing"

            def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
                raise error

        x, function = torch.randn(3), compiled(torch.sin, emitter=Refusing())
        if isinstance(error, NotSupportedError):
            torch.testing.assert_close(function(x), x.sin())
            assert fallbacks() == {"graphs": 1, "WIR910": 1}
        else:
            with pytest.raises(Exception, match="no"):
                function(x)
            assert fallbacks() == {"faults": 1}


class TestCopies:
    def test_graphs_in_graphs(self) -> None:
        inner = symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
        outer = nn.Module()
        outer.inner = inner
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        graph.output(graph.call_module("inner", (x,)))
        gm = torch.fx.GraphModule(outer, graph)
        copied = GraphCopy(gm)
        for changed in (gm, inner):
            for node in list(changed.graph.nodes)[1:-1]:
                node.replace_all_uses_with(next(iter(changed.graph.nodes)))
                changed.graph.erase_node(node)
            changed.recompile()
        value = torch.randn(3, 2)
        assert gm(value) is value
        torch.testing.assert_close(copied.make()(value), nn.functional.linear(value, *outer.parameters()))

    def test_symbols(self) -> None:
        env = ShapeEnv()
        a, b = (
            env.create_symbol(n, source=ConstantSource(s), dynamic_dim=DimDynamic.DYNAMIC)
            for n, s in ((8, "a"), (4, "b"))
        )
        tables = env.replacements, env.guards
        snapshot = SymbolSnapshot(env)
        before = env.replacements.copy(), list(env.guards), env.unbacked_symint_counter
        env.evaluate_expr(sympy.Gt(a, b))
        env.evaluate_expr(sympy.Eq(a, 8))
        env.create_unbacked_symint()
        assert env.guards
        assert env.replacements
        snapshot.restore()
        assert (env.replacements.copy(), list(env.guards), env.unbacked_symint_counter) == before
        assert env.replacements is tables[0]
        assert env.guards is tables[1]
        assert env.simplify(a) == a
