"""Fallback to Inductor for functions that cannot be captured, from copies of the original graphs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence

from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._guards import TracingContext
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx_inner

from inductor_frontend.backend.calling import marked
from inductor_frontend.backend.graph_copy import GraphCopy, SymbolSnapshot
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.boxed import Boxed
from inductor_frontend.errors import BackendError, FallbackWarning
from wrapper_ir.errors import ExecutionError, PluginError, StoreError, WirError

_LOG = logging.getLogger(__name__)

Compile = Callable[[GraphRequest], tuple[Boxed, str]]

COUNTERS = "wrapper_ir_fallback"
"""The group in `torch._dynamo.utils.counters`: `graphs` compiled by Inductor, a count for each code, and
`faults`."""

_LOWERING = "FE104"
"""Inductor refused the graph, or capture caused an exception inside it; compiling with Inductor alone shows
which."""
_USERS = ("FE103", "FE403")
"""Unknown options and settings: errors of the user, not of the graph."""


def _refusal(error: WirError) -> WirError | None:
    """Returns the error if the graph cannot be captured, verified or emitted; None for an error of another
    kind."""
    cause = error.__cause__
    if isinstance(error, BackendError) and error.code == "FE401" and isinstance(cause, WirError):
        return _refusal(cause)
    others = (BackendError, ExecutionError, PluginError, StoreError)
    return None if isinstance(error, others) or error.code in _USERS else error


def counting_faults(request: GraphRequest, compile: Compile) -> tuple[Boxed, str]:
    """Calls `compile(request)`. An exception without a code is a fault of the backend; it is counted and
    logged."""
    try:
        return compile(request)
    except (WirError, TorchDynamoException):
        raise
    except Exception:
        counters[COUNTERS]["faults"] += 1
        _LOG.exception("a fault in the wrapper_ir backend")
        raise


class Fallback:
    """Compiles the graphs of one function by Inductor if one of them is refused.

    A function has an inference graph, or a forward and a backward graph. If the forward graph is refused,
    Inductor compiles its backward graph as well. If the backward graph is refused, which torch requests
    later, Inductor also compiles the forward graph, and its code replaces the existing code at the next call.
    It does not if it needs new guards, which come too late, or returns results with other strides, which the
    backward graph relies on.
    """

    def __init__(self, patches: dict[str, object], autograds_patches: dict[str, object]) -> None:
        """Saves the process's current values of the options, of Inductor and autograd, that a capture
        replaces."""
        now = inductor_config.get_config_copy()
        self._options = {name: now[name] for name in patches if name in now}
        now = functorch_config.get_config_copy()
        self._autograds = {name: now[name] for name in autograds_patches if name in now}
        self._fallen = False
        self._forward: _Forward | None = None

    def compile(self, request: GraphRequest, capture: Compile) -> tuple[Boxed, str]:
        """Returns the result of `capture` and its key, or Inductor's code and no key.

        Raises Inductor's error if it refuses the graph too, and any error that is not a refusal.
        """
        graph = Pristine(request)
        if self._fallen:
            return self._by_inductor(graph), ""
        try:
            call, key = counting_faults(request, capture)
        except WirError as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            call = self._instead(graph, refusal)
            if request.is_backward and self._forward is not None:
                self._forward.replace(self._by_inductor)
            return call, ""
        if not request.is_backward and not request.facts.get("is_inference"):
            self._forward = _Forward(graph, call)
            return _boxed(self._forward.call), key
        return call, key

    def _instead(self, graph: Pristine, refusal: WirError) -> Boxed:
        graph.restore()
        context = TracingContext.try_get()
        if context is not None and context.output_strides is not None:
            context.output_strides.clear()  # set for the program that the emitter refused
        call = self._by_inductor(graph)
        self._fallen = True
        counters[COUNTERS]["graphs"] += 1
        counters[COUNTERS][refusal.code] += 1
        _LOG.info("Inductor compiles a graph that the wrapper_ir backend cannot", exc_info=refusal)
        if refusal.code == _LOWERING:
            counters[COUNTERS]["faults"] += 1
            _LOG.error("Inductor lowers a graph by itself that it refused in a capture", exc_info=refusal)
        warnings.warn(FallbackWarning(refusal), stacklevel=2)
        return call

    def _by_inductor(self, graph: Pristine) -> Boxed:
        """Compiles a graph by Inductor, with the options of the process."""
        with inductor_config.patch(self._options), functorch_config.patch(self._autograds):
            code = compile_fx_inner(graph.copy.make(), graph.request.inputs, **graph.request.facts)
        return _boxed(code)


def _boxed(run: Callable[[list[object]], Sequence[object]]) -> Boxed:
    """Returns `run` as a function that torch does not cache."""

    def call(args: list[object]) -> Sequence[object]:
        return run(args)

    return marked(call)


class Pristine:
    """A graph request with a copy of its graph and symbols, made before capture changes them."""

    def __init__(self, request: GraphRequest) -> None:
        self.request = request
        self.copy = GraphCopy(request.gm)
        self._symbols = SymbolSnapshot(request.shape_env)

    def restore(self) -> None:
        """Restores the state of the symbols at the time of the request."""
        self._symbols.restore()


class _Forward:
    """A forward graph that can be replaced."""

    def __init__(self, graph: Pristine, run: Boxed) -> None:
        self._graph = graph
        self._run = run
        context = TracingContext.try_get()
        self._strides = str(None if context is None else context.output_strides)

    def call(self, args: list[object]) -> Sequence[object]:
        """Runs the current code of the graph."""
        return self._run(args)

    def replace(self, compile: Callable[[Pristine], Boxed]) -> None:
        """Runs Inductor's code from now on, if it needs no new guards and its results have the same
        strides."""
        symbols = SymbolSnapshot(self._graph.request.shape_env)
        with TracingContext.report_output_strides() as strides:
            run = compile(self._graph)
        env = self._graph.request.shape_env
        if str(strides) == self._strides and (env is None or len(env.guards) == symbols.guards):
            self._run = run
        else:
            symbols.restore()
            _LOG.info(
                "a forward graph stays with the wrapper_ir backend: its backward graph relies on its layout"
            )
