"""Compiles one torch graph (forward, backward or inference) to a program, or loads it from the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace

import torch
from torch._guards import TracingContext
from torch._inductor.utils import set_tracing_context_output_strides
from torch.fx.experimental.symbolic_shapes import SymExprPrinter

from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.cache.graph_entry import CompiledGraph, find_graph, find_new_graph, store_graph
from inductor_frontend.cache.keys import GraphFacts, graph_key
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.sizes import Size
from inductor_frontend.cache.statistics import count, count_bypass
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.record.donated import donated_alone
from inductor_frontend.session import capture_session
from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import Store


def compile_graph(
    request: GraphRequest, options: BackendOptions, store: Store | None
) -> tuple[CompiledGraph, str]:
    """Returns the compiled graph, and its key in `store` ("" if it is not stored).

    Reports the strides of the results to torch. Raises CaptureError, HookError, ConversionError.
    """
    request.check()
    with capture_session(options.capture):
        symbols = SymbolState(request.shape_env)
        key = "" if store is None else _key(request, options, symbols)
        graph = find_graph(store, key, symbols) if store is not None and key else None
        if graph is not None:
            symbols.add(graph.guards)
        elif store is None or not key:
            graph = _compile(request, options, symbols)
        else:
            graph, key = _compile_once(store, key, lambda: _compile(request, options, symbols), symbols)
        _report_strides(request.inputs, graph.strides)
    if options.memory_report is not None:
        from inductor_frontend.backend.memory_report import write_memory_report  # deferred: rarely needed

        write_memory_report(graph.artifact.program, request, options.memory_report)
    return graph, key


def _compile_once(
    store: Store, key: str, make: Callable[[], CompiledGraph], symbols: SymbolState
) -> tuple[CompiledGraph, str]:
    """Compiles a graph that the cache lacks; returns it and its cache key.

    If the processes of a distributed group share the cache, one of them compiles the graph. The others wait
    for its lock, which is released when its process ends, for at most `CacheSettings.wait_seconds`; then they
    compile the graph themselves. The lock is acquired before the locks of kernels, whose owners never wait
    for a graph.
    """
    with store.alone(key) if _has_peers() else nullcontext():
        graph = find_new_graph(store, key, symbols)
        if graph is not None:
            symbols.add(graph.guards)
            return graph, key
        graph = make()
        return graph, key if _store(store, key, graph) else ""


def _has_peers() -> bool:
    """Returns whether this process is one of several in a distributed group."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def _compile(request: GraphRequest, options: BackendOptions, symbols: SymbolState) -> CompiledGraph:
    # Imported here: a graph from the cache needs no lowering, building or verification, which are most of
    # this package.
    from inductor_frontend.backend.lowered import compile_anew

    count("lowered")
    return compile_anew(request, options, symbols)


def _store(store: Store, key: str, graph: CompiledGraph) -> bool:
    """Stores a graph if possible; returns whether it was stored."""
    try:
        store_graph(store, key, graph)
    except (NoCanonicalForm, StoreError) as error:
        count_bypass(str(error))
        return False
    return True


def _key(request: GraphRequest, options: BackendOptions, symbols: SymbolState) -> str:
    """Returns the graph's key; "" if part of it has no canonical form."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    donated = (metadata.bw_donated_idxs or ()) if metadata is not None and request.is_backward else ()
    facts = GraphFacts(
        inputs=request.inputs,
        static_inputs=request.facts.get("static_input_idxs", ()),
        donated=donated_alone(request.inputs, donated),
        is_inference=bool(request.facts.get("is_inference", False)),
        is_backward=request.is_backward,
        checks=[f"{check.condition} {check.message!r}" for check in request.checks],
    )
    try:
        return graph_key(request.gm, facts, symbols, options.choices())
    except NoCanonicalForm as error:
        count_bypass(str(error))
        return ""


def _report_strides(inputs: Sequence[object], strides: Sequence[tuple[Size, ...] | None]) -> None:
    printer = SymExprPrinter()
    texts = [None if s is None else tuple(printer.doprint(x) for x in s) for s in strides]
    report = SimpleNamespace(output_strides=texts)
    set_tracing_context_output_strides(inputs, report)  # type: ignore[arg-type]  # reads one attribute
