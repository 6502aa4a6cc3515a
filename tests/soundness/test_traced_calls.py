"""Compiled programs that are called while torch traces, transforms or compiles: refused with a code, or left
out; never baked in.
"""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import cpp_wrapper
import fx_converter
import inductor_frontend
import py_wrapper
from cpp_wrapper.errors import CopyError
from fx_converter import FxOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ArgumentError, ExecutionError

pytestmark = pytest.mark.slow
# Any in this file: compiled programs of every kind
X = torch.arange(16.0).reshape(4, 4) / 8


def model(x: Tensor) -> Tensor:
    return (x @ x).relu() + x.sum()


def _graph(artifact: Artifact) -> Any:
    return fx_converter.convert(artifact, FxOptions(kernel_calls="direct"))


WAYS: dict[str, Callable[[Artifact], Any]] = {
    "python": py_wrapper.compile,
    "fx": fx_converter.compile,
    "graph": _graph,
    "cpp": cpp_wrapper.CppEmitter().compile,
}


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return inductor_frontend.capture(model, (X,))


@pytest.fixture(params=WAYS)
def program(artifact: Artifact, request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param](artifact)


@contextmanager
def refused(what: str) -> Iterator[None]:
    with pytest.raises(ExecutionError, match=rf"\[WIR939\] .* {what}(.|\n)*hint: capture the whole function"):
        yield


@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("pre_dispatch", [False, True])
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_traces_by_make_fx_are_refused(program: Any, mode: Any, pre_dispatch: bool, calls: int) -> None:
    for _ in range(calls):  # after which a fast check knows the argument
        program(X)
    with refused("a trace by make_fx"):
        make_fx(lambda x: program(x * 2), tracing_mode=mode, pre_dispatch=pre_dispatch)(X)
    torch.testing.assert_close(program(X), model(X))
    with refused("a trace by make_fx"):  # nothing was learned under the tracer
        make_fx(lambda x: program(x * 2), tracing_mode=mode, pre_dispatch=pre_dispatch)(X)


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_other_threads_may_trace(program: Any, pre_dispatch: bool) -> None:
    found: list[Tensor] = []

    def traced(x: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: found.append(program(X)))
        thread.start()
        thread.join()
        return x * 2

    graph = make_fx(traced, pre_dispatch=pre_dispatch)(X)
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.mul.Tensor
    ]
    torch.testing.assert_close(found, [model(X)])


def test_other_tracers_are_refused(program: Any) -> None:
    program(X)
    with refused("a trace by torch.jit.trace"):
        torch.jit.trace(lambda x: program(x * 2), (X,), check_trace=False)  # type: ignore[no-untyped-call]  # torch leaves it so
    with refused("FakeTensorMode"), FakeTensorMode():
        program(X)
    with pytest.raises(ArgumentError, match=r"WIR926.*got FakeTensor(.|\n)*pass a tensor that has memory"):
        program(FakeTensorMode().from_tensor(X))


def test_graphs_of_proxies_are_refused(artifact: Artifact) -> None:
    for name in ("python", "fx", "cpp"):
        program = WAYS[name](artifact)
        with refused("a trace by torch.fx"):
            fx.symbolic_trace(lambda x: program(x))  # noqa: B023  # called at once


def test_wrapped_arguments_are_refused(program: Any) -> None:
    program(X)
    with refused("a transform of torch.func"):
        torch.vmap(program)(torch.stack([X, X]))
    with refused("a transform of torch.func"):
        torch.func.jvp(program, (X,), (X,))
    with refused("a transform of torch.func"):
        torch.func.functionalize(program)(X)
    with pytest.raises(ExecutionError, match="WIR930"):
        torch.func.grad(lambda x: program(x).sum())(X)
    torch.testing.assert_close(torch.vmap(lambda v: program(X) * v)(torch.ones(2))[1], model(X))
    torch.testing.assert_close(torch.func.grad(lambda v: (program(X) * v).sum())(X), model(X))


def test_export_and_capture_are_refused(program: Any) -> None:
    class Outer(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            return program(x * 2)

    with refused("a trace by make_fx or torch.export"):
        torch.export.export(Outer(), (X,))
    with refused("a trace by make_fx or torch.export"):
        inductor_frontend.capture(Outer(), (X,))


class _Listener(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [nullcontext, _Listener, lambda: FlopCounterMode(display=False)])
def test_modes_that_look_on_are_not_refused(program: Any, mode: Callable[[], Any]) -> None:
    with mode():
        torch.testing.assert_close(program(X), model(X))
        torch.testing.assert_close(program(X), model(X))
    with refused("a trace by make_fx"):
        make_fx(lambda x: program(x))(X)


def test_programs_without_arguments_are_not_baked_in() -> None:
    artifact = inductor_frontend.capture(lambda: torch.arange(4.0).cumsum(0).exp(), ())
    for name in ("python", "fx", "graph", "cpp"):
        program = WAYS[name](artifact)
        torch.testing.assert_close(program(), torch.arange(4.0).cumsum(0).exp())
        with refused("a trace by make_fx"):
            make_fx(lambda x: x + program())(torch.ones(4))  # noqa: B023  # called at once


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_functions_call_programs(program: Any, backend: str) -> None:
    torch._dynamo.reset()
    graphs: list[str] = []

    def compiler(graph: fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph.code)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    compiled = torch.compile(lambda x: program(x * 2) * 3, backend=compiler)
    for x in (X, X + 1):
        torch.testing.assert_close(compiled(x), model(x * 2) * 3)
    assert len(graphs) == 2, graphs  # before the program, and after it
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"program of Wrapper IR is compiled already"):
        torch.compile(lambda x: program(x * 2) * 3, backend=backend, fullgraph=True)(X)


def test_loaded_programs_are_not_copied(artifact: Artifact) -> None:
    program: Any = WAYS["cpp"](artifact)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(CopyError, match=r"\[CPP611\](.|\n)*cpp_wrapper.load opens the file again"):
            copied(program)
    torch.testing.assert_close(cpp_wrapper.load(program.path)(X), model(X))
