"""Torch's calling convention for compiled graphs: one list of arguments, which the callee clears."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode
from torch.utils._python_dispatch import _disable_current_modes

from inductor_frontend.backend.between_streams import between_streams
from inductor_frontend.backend.live_graphs import FunctionInfo, GraphInfo
from inductor_frontend.backend.observing import observe
from inductor_frontend.backend.visible import log_code, profiled
from inductor_frontend.boxed import Boxed
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.errors import BackendError
from inductor_frontend.lazy_bits import resolving
from inductor_frontend.scope.outer_streams import OuterStreams
from wrapper_ir import ir
from wrapper_ir.analysis.inputs import written_params
from wrapper_ir.errors import WirError
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.plugins.protocols import Emitter, OperatorEmitter


class _OwnCode(OutputCode):
    """Placeholder for a compiled graph in torch's cache entries; refuses to be stored there."""

    def prepare_for_serialization(self) -> NoReturn:
        """Raises BypassAOTAutogradCache: the backend has a separate cache."""
        raise BypassAOTAutogradCache("code of the wrapper_ir backend is in its own cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """Facts about the calls of a graph.

    `is_guarded`: whether Dynamo checks the arguments. `kind`: `forward`, `backward` or `inference`.
    `graph_id`: torch's number of the graph. `function`: the function that contains it. `from_cache`: whether
    it was loaded from the cache.
    """

    is_guarded: bool = False
    kind: str = "inference"
    graph_id: object = None
    function: FunctionInfo = field(default_factory=FunctionInfo)
    from_cache: bool = False


def marked(call: Boxed) -> Boxed:
    """Returns `call` with the attributes by which torch recognizes this convention."""
    call._boxed_call = True  # type: ignore[attr-defined]  # torch's mark of this convention
    call.__wrapped__ = _OwnCode()  # type: ignore[attr-defined]  # the object that torch would cache
    return call


def boxed(graph: CompiledGraph, emitter: Emitter[object], facts: CallFacts | None = None) -> Boxed:
    """Compiles a graph with `emitter`, and returns a callable that accepts the graph's inputs.

    Reports the graph to the observers of compilations. Raises BackendError FE401 if the emitter fails.
    """
    facts = facts or CallFacts()
    guarded = ir.Guarded.all_inputs(graph.artifact.program) if facts.is_guarded else ir.NOT_GUARDED
    if isinstance(emitter, OperatorEmitter):  # the model is trusted, and so are its operators
        emitter = emitter.with_operators(ALL_OPERATORS)
    try:
        # Torch may still be tracing with fake tensors; the emitter's objects, such as kernel loaders, are
        # real.
        with _disable_current_modes():
            compiled = emitter.compile(graph.artifact, guarded)
            log_code(graph.artifact, emitter)
    except WirError as error:
        raise BackendError(
            "FE401", f"emitter {emitter.name!r} cannot compile the program: {error}"
        ) from error
    info = GraphInfo(
        function=facts.function,
        kind=facts.kind,
        artifact=graph.artifact,
        emitter=emitter,
        program=compiled,
        guarded=guarded,
        from_cache=facts.from_cache,
    )
    with _disable_current_modes():
        observe(info)
    ordered: Boxed = compiled.boxed
    if graph.positions != tuple(range(graph.inputs)):
        ordered = _picking(ordered, graph.positions)
    if graph.outer != OuterStreams():
        ordered = between_streams(ordered, graph.outer)
    if graph.lazy:
        ordered = resolving(ordered, graph.lazy, _written(graph))
    call = marked(profiled(ordered, graph.artifact, facts.graph_id))
    call.info = info  # type: ignore[attr-defined]  # lives as long as the code
    return call


def _picking(run: Boxed, positions: Sequence[int]) -> Boxed:
    """Returns `run` called with the graph inputs at `positions`, in that order."""

    def call(args: list[object]) -> Sequence[object]:
        operands = [args[p] for p in positions]
        args.clear()
        return run(operands)

    return call


def _written(graph: CompiledGraph) -> frozenset[int]:
    """Returns the positions of the graph's inputs whose elements its program writes."""
    program = graph.artifact.program
    targets = written_params(program)
    return frozenset(
        p for p, n in zip(graph.positions, program.main.params, strict=True) if n.value in targets
    )


def deferred(make: Callable[[bool], tuple[Boxed, bool]]) -> Boxed:
    """Returns a backward graph that is compiled on its first call.

    `make(keep)` compiles it. If `keep` (`retain_graph`), the saved tensors must not be overwritten. It also
    returns whether the compiled code overwrites them; later calls that keep them are then refused, as in
    torch.
    """
    state = _Deferred(make)

    def call(args: list[object]) -> Sequence[object]:
        return state.call(args)

    return marked(call)


class _Deferred:
    """State of a deferred graph: not compiled, compiled, or failed.

    A failed graph is not compiled again, since torch's passes may have changed part of it.
    """

    def __init__(self, make: Callable[[bool], tuple[Boxed, bool]]) -> None:
        self._make: Callable[[bool], tuple[Boxed, bool]] | None = make
        self._made: tuple[Boxed, bool] | None = None
        self._failure: BaseException | None = None

    def call(self, args: list[object]) -> Sequence[object]:
        """Runs the graph; compiles it first if necessary. Raises BackendError FE402 after a failure."""
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        run, overwrites = self._made or self._compile(keep)
        if keep and overwrites:
            raise RuntimeError(
                "this backward graph was compiled to overwrite the tensors that forward saved; "
                "it cannot be called with retain_graph=True or create_graph=True. "
                "Use neither in any backward() of this function, or set "
                "torch._functorch.config.donated_buffer = False"
            )
        return run(args)

    def _compile(self, keep: bool) -> tuple[Boxed, bool]:
        with compile_lock:
            if self._failure is not None:
                raise BackendError(
                    "FE402",
                    f"compiling this backward graph has failed before: {self._failure}",
                    hint="when the cause is fixed, call torch.compiler.reset() to compile the function again",
                ) from self._failure
            if self._made is None:
                assert self._make is not None  # cleared only after success
                try:
                    self._made = self._make(keep)
                except BaseException as error:
                    self._failure = error
                    raise
                self._make = None
            return self._made
