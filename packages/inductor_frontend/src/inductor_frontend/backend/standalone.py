"""Compiles single graphs that are saved to files; the counterpart of `torch._inductor.standalone_compile`.

Serving systems split a model into pieces and load them when they start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._inductor import config as inductor_config
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from inductor_frontend.backend.compilation import ReportingCompilation
from inductor_frontend.backend.graph import compile_graph
from inductor_frontend.backend.graph_copy import GraphCopy
from inductor_frontend.backend.live_graphs import describe_function
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.backend.restored import restore
from inductor_frontend.boxed import Boxed
from inductor_frontend.cache.function_entry import Backward, CompiledFunction, encode_facts, read_facts
from inductor_frontend.cache.graph_entry import CompiledGraph, described, load_graph
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.symbols import ForeignSymbols, SymbolState
from inductor_frontend.errors import BackendError
from inductor_frontend.functionalize.resizes import lend
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.file import save
from wrapper_ir.plugins.protocols import Emitter
from wrapper_ir_runtime.cache import DamagedEntry

if TYPE_CHECKING:
    from torch._inductor.utils import InputType

# Any in this file: results of any graph.

_KEY = f"piece of torch {torch.__version__}"
_BACKWARD_KEY = f"backward {_KEY}"
_FUNCTION = "inductor_frontend.function"
_SINGLE = "inductor_frontend.single"

Sizes = Literal["from_graph", "from_tracing_context", "from_example_inputs"]
_SIZES = get_args(Sizes)


@dataclass(frozen=True, slots=True)
class CompiledPiece:
    """A compiled graph, called with the inputs of the graph: tensors and sizes.

    `artifact` contains its program, and in its metadata the facts of the runtime wrappers. `inputs` is the
    number of inputs. `backward` contains the program of the backward graph, only of functions that Dynamo
    compiles ahead of time.
    """

    artifact: Artifact
    inputs: int
    call: Callable[..., Any]
    backward: Artifact | None = None

    def __call__(self, *args: object) -> Any:
        """Runs the graph and returns its results. Raises BackendError FE364 for another number of
        arguments."""
        if len(args) != self.inputs:
            raise BackendError(
                "FE364",
                f"a piece with {self.inputs} inputs is called with {len(args)}",
                hint="it was compiled from another graph: "
                "a number may be an input in one process and constant in another",
            )
        results = self.call(*args)
        return results[0] if _SINGLE in self.artifact.metadata else results

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.wir` file, which `load_piece` reads in any process with this torch version, from any
        path.

        Kernels are in the cache; `save_cache_artifacts` exports them. Raises ArtifactError.
        """
        save(self.artifact, path)


def standalone_compile(
    gm: fx.GraphModule,
    example_inputs: Sequence[InputType],
    *,
    dynamic_shapes: Sizes = "from_graph",
    options: Mapping[str, object] | None = None,
) -> CompiledPiece:
    """Compiles a Dynamo graph, or a part of one, for inference. `gm` is not changed.

    `dynamic_shapes` is as in `torch._inductor.standalone_compile`: sizes are symbolic if the graph's values
    are, or if those of the tracing context are, or never. `options` are those of the backend; its cache is
    not used. Guards of the compilation are added to the ShapeEnv of the sizes, and stored in the piece.

    Raises ValueError for other `dynamic_shapes`, CaptureError, HookError, ConversionError, BackendError FE361
    for a graph that needs gradients, and FE362 for a graph that cannot be saved.
    """
    return compile_piece(gm, example_inputs, dynamic_shapes, BackendOptions.parse(options), trains=False)


def compile_piece(
    gm: fx.GraphModule, inputs: Sequence[InputType], sizes: Sizes, options: BackendOptions, *, trains: bool
) -> CompiledPiece:
    """Compiles a piece as `standalone_compile` does. If `trains`, it may have a backward graph, which is
    compiled at once."""
    parsed = replace(options, cache=False, on_unsupported="error")
    _require_no_state(gm)
    mode = _fake_mode(gm, sizes)
    copied = GraphCopy(lend(gm, inputs)).make()
    single = _return_tuple(copied)
    with tracing(TracingContext(mode)), inductor_config.patch(dict(parsed.inductor)):
        piece = _Piece(
            options=parsed,
            emitter=parsed.find_emitter(),
            symbols=SymbolState(mode.shape_env),
            function=describe_function(gm),
            is_guarded=False,  # callers of a piece need not check its inputs
            ignores_shape_env=sizes == "from_example_inputs",
            trains=trains,
        )
        call = piece.run(copied, inputs)
        return piece.finish(call, {_SINGLE: ""} if single else {})


def _fake_mode(gm: fx.GraphModule, sizes: Sizes) -> FakeTensorMode:
    """Returns the fake tensor mode whose ShapeEnv has the symbolic sizes of the graph."""
    if sizes not in _SIZES:
        raise ValueError(f"dynamic_shapes must be one of {', '.join(_SIZES)}, not {sizes!r}")
    if sizes == "from_tracing_context" and (mode := TracingContext.get().fake_mode) is not None:
        return mode
    results = gm.graph.output_node().all_input_nodes if sizes == "from_graph" else ()
    values = (node.meta.get("example_value") for node in results)
    modes = (value.fake_mode for value in values if isinstance(value, FakeTensor))
    return next(modes, None) or FakeTensorMode(shape_env=ShapeEnv())


def load_piece(path: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> CompiledPiece:
    """Loads a piece from a file; `options` select the emitter.

    Nothing is lowered; kernels are loaded from the cache or compiled. While Dynamo traces, the piece's guards
    on sizes are added to its ShapeEnv; otherwise the caller must satisfy them. Raises BackendError FE363 for
    a file without a piece of this torch version, or if the piece does not match the sizes of the trace.
    """
    return read_piece(Path(path), None, BackendOptions.parse(options), repr(os.fspath(path)))


def read_piece(path: Path, backward: Path | None, options: BackendOptions, name: str) -> CompiledPiece:
    """Loads a piece as `load_piece` does, and its backward graph from the file `backward` unless that is
    None. `name` is the name of the piece in messages."""
    emitter = options.find_emitter()
    context = TracingContext.try_get()
    env = None if context is None or context.fake_mode is None else context.fake_mode.shape_env
    symbols = ForeignSymbols() if env is None else SymbolState(env)
    try:
        forward = load_graph(path, _KEY, symbols)
        facts = read_facts(json.loads(forward.artifact.metadata[_FUNCTION]), symbols)
        second = None if backward is None else load_graph(backward, _BACKWARD_KEY, symbols)
        if (facts.saved is None) != (second is None):
            raise DamagedEntry("its graphs are not those of one function")
    except (DamagedEntry, KeyError, ValueError) as error:
        raise BackendError("FE363", f"{name} contains no {_KEY}: {error}") from error
    symbols.add(facts.guards)
    # Torch refuses a second backward pass by itself if the program overwrites saved tensors.
    saved = None if second is None else Backward(graph=second, overwrites=False)
    call = _restored(CompiledFunction(forward=forward, backward=saved, facts=facts), emitter)
    inputs = len(facts.metadata.input_info)
    return CompiledPiece(forward.artifact, inputs, call, None if second is None else second.artifact)


def _restored(entry: CompiledFunction, emitter: Emitter[object]) -> Callable[..., object]:
    empty = fx.Graph()
    empty.output(())
    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
        return restore(entry, fx.GraphModule({}, empty), [], emitter, is_guarded=False)


def _require_no_state(gm: fx.GraphModule) -> None:
    """Raises BackendError FE362 for a graph with parameters or buffers, which the file would not contain."""
    if names := [name for name, _ in (*gm.named_parameters(), *gm.named_buffers())]:
        raise BackendError(
            "FE362",
            f"a piece cannot be saved: its module has tensors, {', '.join(names[:3])}",
            hint="pass them as inputs, as Dynamo's graphs do",
        )


def _return_tuple(gm: fx.GraphModule) -> bool:
    """Wraps a single result of a graph in a tuple; returns whether it was single."""
    output = gm.graph.output_node()
    (results,) = output.args
    if isinstance(results, fx.Node):
        output.args = ((results,),)
        gm.recompile()
    return isinstance(results, fx.Node)


@dataclass(kw_only=True, eq=False)
class _Piece(ReportingCompilation):
    """A compilation that retains its graphs and the facts of their runtime wrappers."""

    trains: bool
    _forward: CompiledGraph | None = None
    _backward: CompiledGraph | None = None

    def inner(self, gm: fx.GraphModule, inputs: Sequence[InputType], *_: object, **facts: object) -> Boxed:
        """Compiles a graph. Raises BackendError FE361 if it needs gradients, but the piece is for
        inference."""
        request = GraphRequest(gm, inputs, facts, self.checks)
        if request.kind != "inference" and not self.trains:
            raise BackendError(
                "FE361",
                "a piece that needs gradients cannot be saved",
                hint="compile it under torch.no_grad()",
            )
        graph = compile_graph(request, self.options, None)[0]
        if request.is_backward:
            self._backward = graph
        else:
            self._forward = graph
        return self.boxed(graph, request)

    def finish(self, call: Callable[..., object], more: Mapping[str, str]) -> CompiledPiece:
        """Returns the piece, with the entries of `more` in its metadata. Raises BackendError FE362."""
        try:
            facts = self.facts(call)
            if facts.metadata.bw_donated_idxs is None:  # torch would refuse `retain_graph` at run time
                facts.metadata.bw_donated_idxs = []
            artifact = _described(self._forward, _KEY, {_FUNCTION: json.dumps(encode_facts(facts)), **more})
            backward = None if facts.saved is None else _described(self._backward, _BACKWARD_KEY, {})
        except NoCanonicalForm as error:
            raise BackendError("FE362", f"a piece cannot be saved: {error}") from error
        return CompiledPiece(artifact, len(facts.metadata.input_info), call, backward)


def _described(graph: CompiledGraph | None, key: str, more: Mapping[str, str]) -> Artifact:
    """Returns the artifact of a graph as `described` does. Raises NoCanonicalForm for a graph that cannot be
    saved."""
    if graph is None:
        raise NoCanonicalForm("torch has not requested a graph")
    return described(graph, key, more)
