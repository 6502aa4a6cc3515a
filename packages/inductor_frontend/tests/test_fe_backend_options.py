"""Options of the backend and errors for invalid ones, and its interaction with the rest of torch.compile:
other backends, dynamic shapes, recompilations, stances, modules compiled in place."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch._inductor.virtualized import V

from inductor_frontend import CaptureError, PaddingOptions
from inductor_frontend.backend import BackendOptions, wrapper_ir_backend
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.cache import stats
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.plugins.registry import emitter


@pytest.fixture(autouse=True)
def _fresh() -> None:
    counters.clear()
    torch.manual_seed(0)


def refused(options: dict[str, Any], *parts: str) -> None:
    """`options` are refused with FE103, in a message with these parts."""
    with pytest.raises(CaptureError) as caught:
        BackendOptions.parse(options)
    assert caught.value.code == "FE103"
    for part in parts:
        assert part in str(caught.value)


class TestMistakes:
    def test_unknown_names(self) -> None:
        refused({"speed": 11}, "speed", "known", "emitter", "passes", "cache", "layout_asserts")
        refused({"padding": {"wide": 1}}, "wide", "padding", "pad_outputs")

    def test_wrong_types(self) -> None:
        refused({"verify": 1}, "'verify'", "1")
        refused({"padding": 3}, "'padding'")
        refused({"padding": {"padding_alignment_bytes": True}}, "'padding.padding_alignment_bytes'")
        refused({"emitter": 3}, "'emitter'", "installed emitter")
        refused({"passes": ["derive-frees"]}, "'passes'", "text form")
        refused({"cache": 3}, "'cache'", "folder")
        refused({"memory_report": True}, "'memory_report'", "folder")

    def test_pipelines(self) -> None:
        refused({"passes": "make-it-fast"}, "make-it-fast", "unknown pass")
        refused({"passes": "derive-frees{x=1}"}, "derive-frees")

    def test_reach_the_user_of_torch_compile(self) -> None:
        x = torch.randn(3)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"verify": "yes"}, "FE103"),
            ({"emitter": "nowhere"}, "FE401"),
        ]
        for options, code in cases:
            with pytest.raises(Exception, match=code):
                torch.compile(torch.sin, backend="wrapper_ir", options=options)(x)

    def test_the_default_mode(self) -> None:
        x = torch.randn(3)
        torch.testing.assert_close(torch.compile(torch.sin, backend="wrapper_ir", mode="default")(x), x.sin())

    @pytest.mark.parametrize("fact", ["cpp_wrapper", "fx_wrapper", "aot_mode", "extern_node_serializer"])
    def test_other_kinds_of_code(self, fact: str) -> None:
        graph = torch.fx.symbolic_trace(nn.Identity())
        with pytest.raises(CaptureError, match=rf"FE103.*{fact}"):
            GraphRequest(graph, [], {fact: True}).check()

    def test_compilation_ahead_of_time(self) -> None:
        graph = torch.fx.symbolic_trace(nn.Identity())
        with V.set_aot_compilation(True), pytest.raises(CaptureError, match=r"FE103.*aot_mode"):
            GraphRequest(graph, [], {}).check()

    def test_cuda_graphs_are_no_mistake(self) -> None:
        graph = torch.fx.symbolic_trace(nn.Identity())
        GraphRequest(graph, [], {"cudagraphs": True, "boxed_forward_device_index": 0, "graph_id": 1}).check()


class TestChoices:
    def test_spellings(self, tmp_path: Path) -> None:
        parsed = BackendOptions.parse(
            {"passes": " derive-frees ", "cache": tmp_path, "verify": False, "padding": {"pad_outputs": True}}
        )
        assert parsed.passes.startswith("derive-frees")
        assert parsed.cache == str(tmp_path)
        assert not parsed.capture.verify
        assert parsed.capture.padding == PaddingOptions(pad_outputs=True)

    def test_padding_as_an_object(self) -> None:
        padding = PaddingOptions(pad_outputs=True)
        assert BackendOptions.parse({"padding": padding}).capture.padding is padding

    def test_an_emitter_of_ones_own(self) -> None:
        @dataclass
        class Recording:
            name: str = "recording"
            artifacts: int = 0

            def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
                self.artifacts += 1
                return emitter("python").compile(artifact, guarded)

        mine, x = Recording(), torch.randn(3)
        options: dict[str, Any] = {"emitter": mine}
        got = torch.compile(torch.sin, backend="wrapper_ir", options=options)(x)
        torch.testing.assert_close(got, x.sin())
        assert mine.artifacts == 1

    def test_passes_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Finite checks are inserted, and detect values that are not finite."""
        function = torch.compile(
            torch.log, backend="wrapper_ir", options={"passes": "insert-finite-checks{outputs=true}"}
        )
        function(torch.ones(3))
        with pytest.raises(Exception, match="finite"):
            function(-torch.ones(3))


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


class TestSideBySide:
    def test_backends_and_options_on_one_function(self) -> None:
        """Each compiled function keeps its code, even if others are called in between."""
        x, w = torch.randn(3, 4), torch.randn(4, 2)
        plain: dict[str, Any] = {"verify": False}
        functions = [
            torch.compile(matmul, backend="wrapper_ir"),
            torch.compile(matmul),
            torch.compile(matmul, backend="wrapper_ir", options=plain),
            torch.compile(matmul, backend="eager"),
        ]
        for _ in range(2):
            for function in functions:
                torch.testing.assert_close(function(x, w), x @ w)
        assert stats().lowered == 2
        again = torch.compile(matmul, backend="wrapper_ir", options=dict(plain))
        again(x, w)
        assert stats().lowered == 2, "equal options are the same backend"

    def test_threads(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir")
        failures: list[str] = []

        def run(width: int) -> None:
            x, w = torch.randn(3, width), torch.randn(width, 2)
            for _ in range(3):
                if not torch.allclose(function(x, w), x @ w, atol=1e-5):
                    failures.append(f"width {width}")

        threads = [threading.Thread(target=run, args=(width,)) for width in (3, 4, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []

    def test_copies(self) -> None:
        model = nn.Linear(4, 2)
        first: Any = torch.compile(model, backend="wrapper_ir")  # a module, to its users
        x = torch.randn(3, 4)
        want = model(x)
        torch.testing.assert_close(first(x), want)
        second = copy.deepcopy(first)
        with torch.no_grad():
            second.weight.zero_()
        torch.testing.assert_close(first(x), want)
        torch.testing.assert_close(second(x), second.bias.expand(3, 2))

    def test_modules_in_place(self) -> None:
        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x: Tensor) -> Tensor:
                result: Tensor = self.layer(self.layer(x))
                return result

        model, x = Twice(), torch.randn(3, 4)
        want = model(x)
        model.compile(backend="wrapper_ir")
        got = model(x)
        got.sum().backward()
        assert stats().lowered == 2
        torch.testing.assert_close(got, want)


def frames(backend: str, run: Callable[[Callable[..., Any]], None], **kwargs: Any) -> int:
    """Returns the number of calls of a backend while `run` uses the compiled function."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    run(lambda function: torch.compile(function, backend=counter, **kwargs))
    return counter.frame_count


def same_frames(run: Callable[[Callable[..., Any]], None], **kwargs: Any) -> int:
    """As `frames` for our backend, which is the same as Inductor's."""
    ours, theirs = frames("wrapper_ir", run, **kwargs), frames("inductor", run, **kwargs)
    assert ours == theirs
    return ours


class TestShapes:
    def sizes(self, *batches: int) -> Callable[[Callable[..., Any]], None]:
        w = torch.randn(4, 2)

        def run(compile: Callable[..., Any]) -> None:
            function = compile(matmul)
            for batch in batches:
                x = torch.randn(batch, 4)
                torch.testing.assert_close(function(x, w), x @ w)

        return run

    def test_automatic(self) -> None:
        assert same_frames(self.sizes(3, 5, 7, 9)) == 2

    def test_dynamic(self) -> None:
        assert same_frames(self.sizes(3, 5, 7), dynamic=True) == 1

    def test_static(self) -> None:
        assert same_frames(self.sizes(3, 5, 7), dynamic=False) == 3

    def test_one_is_a_size_of_its_own(self) -> None:
        assert same_frames(self.sizes(3, 1, 5), dynamic=True) == 2

    def test_marked(self) -> None:
        def run(compile: Callable[..., Any]) -> None:
            function, w = compile(matmul), torch.randn(4, 2)
            for batch in (3, 5):
                x = torch.randn(batch, 4)
                torch._dynamo.mark_dynamic(x, 0)
                torch.testing.assert_close(function(x, w), x @ w)

        assert same_frames(run) == 1

    def test_unbacked(self) -> None:
        def run(compile: Callable[..., Any]) -> None:
            function, w = compile(matmul), torch.randn(4, 2)
            for batch in (3, 5, 1):
                x = torch.randn(batch, 4)
                torch._dynamo.decorators.mark_unbacked(x, 0)
                torch.testing.assert_close(function(x, w), x @ w)

        assert same_frames(run) == 1

    def test_branches_on_sizes(self) -> None:
        def either(x: Tensor, w: Tensor) -> Tensor:
            return x @ w if x.shape[0] * 2 > 10 else w @ x.t()

        def run(compile: Callable[..., Any]) -> None:
            function, w = compile(either), torch.randn(4, 4)
            for batch in (3, 7, 4, 9):
                x = torch.randn(batch, 4)
                torch.testing.assert_close(function(x, w), either(x, w))

        assert same_frames(run, dynamic=True) == 2


class TestGraphs:
    def broken(self, x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        torch._dynamo.graph_break()
        return y @ w.t()

    def test_breaks(self) -> None:
        def run(compile: Callable[..., Any]) -> None:
            x, w = torch.randn(3, 4), torch.randn(4, 2)
            torch.testing.assert_close(compile(self.broken)(x, w), x @ w @ w.t())

        assert same_frames(run) == 2

    def test_the_whole_graph_or_nothing(self) -> None:
        function = torch.compile(self.broken, backend="wrapper_ir", fullgraph=True)
        with pytest.raises(torch._dynamo.exc.Unsupported):
            function(torch.randn(3, 4), torch.randn(4, 2))
        assert stats().lowered == 0

    def test_grad_modes(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir")
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        assert function(x, w).requires_grad
        with torch.no_grad():
            assert not function(x, w).requires_grad
        with torch.inference_mode():
            assert function(x, w).is_inference()
        torch.testing.assert_close(function(x, w), x @ w)

    def test_autocast(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir")
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            got, want = function(x, w), x @ w
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got, want)
        torch.autograd.backward(got.sum())
        assert w.grad is not None
        assert w.grad.dtype == torch.float32
        assert function(x, w).dtype == torch.float32


class TestProcessState:
    def test_stances(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir")
        x, w = torch.randn(3, 4), torch.randn(4, 2)
        with torch.compiler.set_stance("force_eager"):
            function(x, w)
        assert stats().lowered == 0
        function(x, w)
        with torch.compiler.set_stance("fail_on_recompile"):
            function(x, w)
            with pytest.raises(RuntimeError, match="recompile"):
                function(x.double(), w.double())
        with torch.compiler.set_stance("eager_on_recompile"):
            function(x.double(), w.double())
        assert stats().lowered == 1

    def test_reset(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir")
        x, w = torch.randn(3, 4), torch.randn(4, 2)
        for _ in range(2):
            function(x, w)
            torch.compiler.reset()
        assert stats().lowered == 2

    def test_errors_may_be_suppressed(self) -> None:
        function = torch.compile(matmul, backend="wrapper_ir", options={"emitter": "nowhere"})
        x, w = torch.randn(3, 4), torch.randn(4, 2)
        with torch._dynamo.config.patch(suppress_errors=True):
            torch.testing.assert_close(function(x, w), x @ w)

    def test_the_backend_called_directly(self) -> None:
        """Another backend may call it without Dynamo; it draws no random numbers of Python."""
        graph = torch.fx.symbolic_trace(matmul)
        x, w = torch.randn(3, 4), torch.randn(4, 2)
        state = random.getstate()
        compiled = wrapper_ir_backend(graph, [x, w], options={"cache": False})
        assert random.getstate() == state
        torch.testing.assert_close(compiled(x, w), x @ w)
