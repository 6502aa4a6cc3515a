"""Torch's calling convention for compiled graphs: one list of arguments, which the callee empties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch._dynamo.convert_frame import compile_lock
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._inductor.output_code import OutputCode
from torch.utils._python_dispatch import _disable_current_modes

from inductor_frontend.backend.between_streams import between_streams
from inductor_frontend.backend.live_graphs import FunctionInfo, GraphInfo
from inductor_frontend.backend.observing import observe
from inductor_frontend.backend.visible import log_code, profiled
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.errors import BackendError
from inductor_frontend.lazy_bits import resolving
from inductor_frontend.scope.outer_streams import OuterStreams
from wrapper_ir import ir
from wrapper_ir.analysis.inputs import written_params
from wrapper_ir.errors import WirError
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.plugins.protocols import Emitter, OperatorEmitter

# Any in this file: tensors and numbers of any graph.
Boxed = Callable[[list[Any]], Sequence[Any]]


class _OwnCode(OutputCode):
    """Stands behind a compiled graph where torch collects what it would cache: it never enters torch's cache."""

    def prepare_for_serialization(self) -> NoReturn:
        """Refuses."""
        raise BypassAOTAutogradCache("code of the wrapper_ir backend is in its own cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """What is known of a graph's calls: whether Dynamo checks what it is called with, its kind (`forward`, `backward`,
    `inference`), torch's number of it, the function that it is part of, and whether it came out of the cache."""

    is_guarded: bool = False
    kind: str = "inference"
    graph_id: object = None
    function: FunctionInfo = field(default_factory=FunctionInfo)
    from_cache: bool = False


def marked(call: Boxed) -> Boxed:
    """`call`, a function, with the marks that torch looks for."""
    call._boxed_call = True  # type: ignore[attr-defined]  # torch's mark of this convention
    call.__wrapped__ = _OwnCode()  # type: ignore[attr-defined]  # where torch looks for what to cache
    return call


def boxed(graph: CompiledGraph, emitter: Emitter[Any], facts: CallFacts | None = None) -> Boxed:
    """The emitted callable of a graph, called with the graph's inputs; who watches compilations is told of it. Raises BackendError FE401."""
    facts = facts or CallFacts()
    guarded = ir.Guarded.all_inputs(graph.artifact.program) if facts.is_guarded else ir.NOT_GUARDED
    if isinstance(emitter, OperatorEmitter):  # the model is the process's own, and so is what it calls
        emitter = emitter.with_operators(ALL_OPERATORS)
    try:
        # Torch may still be tracing with fake tensors; what emitters make, kernels' loaders among it, is real.
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
    call.info = info  # type: ignore[attr-defined]  # which lives as long as the code
    return call


def _picking(run: Boxed, positions: Sequence[int]) -> Boxed:
    """`run` on those of a graph's inputs that its program has."""

    def call(args: list[Any]) -> Sequence[Any]:
        used = [args[p] for p in positions]
        args.clear()
        return run(used)

    return call


def _written(graph: CompiledGraph) -> frozenset[int]:
    """The positions of a graph's inputs whose elements its program writes."""
    program = graph.artifact.program
    written = written_params(program)
    return frozenset(
        p for p, n in zip(graph.positions, program.main.params, strict=True) if n.value in written
    )


def deferred(make: Callable[[bool], tuple[Boxed, bool]]) -> Boxed:
    """A backward graph that is compiled when it is first called.

    `make(keep)` compiles it, for a graph whose saved tensors are kept (`retain_graph`) or may be overwritten, and
    says whether the compiled code overwrites them. As torch does, later calls that keep them are then refused.
    """
    state = _Deferred(make)

    def call(args: list[Any]) -> Sequence[Any]:
        return state.call(args)

    return marked(call)


class _Deferred:
    """What has become of a deferred graph: not compiled yet, compiled, or failed (and then not tried again, since
    torch's passes may have left its graph half changed)."""

    def __init__(self, make: Callable[[bool], tuple[Boxed, bool]]) -> None:
        self._make: Callable[[bool], tuple[Boxed, bool]] | None = make
        self._made: tuple[Boxed, bool] | None = None
        self._failure: BaseException | None = None

    def call(self, args: list[Any]) -> Sequence[Any]:
        """Runs it, compiling it first if need be. Raises BackendError FE402 after a failure."""
        keep = torch._C._autograd._get_current_graph_task_keep_graph()
        run, overwrites = self._made or self._compile(keep)
        if keep and overwrites:
            raise RuntimeError(
                "this backward graph was compiled to overwrite the tensors that forward saved; it cannot be called "
                "with retain_graph=True or create_graph=True. Use neither in any backward() of this function, or set "
                "torch._functorch.config.donated_buffer = False"
            )
        return run(args)

    def _compile(self, keep: bool) -> tuple[Boxed, bool]:
        with compile_lock:
            if self._failure is not None:
                raise BackendError(
                    "FE402",
                    f"compiling this backward graph has failed before: {self._failure}",
                    hint="after the cause is gone, torch.compiler.reset() compiles the function anew",
                ) from self._failure
            if self._made is None:
                assert self._make is not None  # forgotten only when made
                try:
                    self._made = self._make(keep)
                except BaseException as error:
                    self._failure = error
                    raise
                self._make = None
            return self._made
