"""Runs torch's compile flow on one function with the backend's inner compiler, and caches the result."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch._functorch import config as functorch_config
from torch._guards import CompileContext, TracingContext, compile_context, tracing
from torch._inductor import config as inductor_config
from torch._inductor.compile_fx import compile_fx
from torch.fx import GraphModule

from inductor_frontend.backend.calling import CallFacts, boxed, deferred
from inductor_frontend.backend.fallback import Fallback, counting_faults
from inductor_frontend.backend.graph import compile_graph
from inductor_frontend.backend.live_graphs import FunctionInfo
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.boxed import Boxed
from inductor_frontend.cache.function_entry import RuntimeFacts, encode_facts, store_function
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.sizes import Json
from inductor_frontend.cache.statistics import count_bypass
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.export.fresh_fakes import fresh_fakes
from inductor_frontend.functionalize.pattern_registration import patterns_as_needed
from inductor_frontend.guards.checks import ModelCheck, graph_checks
from inductor_frontend.guards.equalities import keep_equalities
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches, known_options
from wrapper_ir.errors import StoreError
from wrapper_ir.plugins.protocols import Emitter
from wrapper_ir_runtime.cache import Store

if TYPE_CHECKING:
    from torch._inductor.utils import InputType

# Any in this file: tensors and numbers of any graph, and torch's untyped objects.

# With these options torch reports what autograd does around the graphs, as for ahead-of-time compilation. Its
# cache never hits, since the key is random, and `calling._OwnCode` refuses to be stored.
_REPORTING: Mapping[str, object] = {
    "enable_autograd_cache": True,
    "bundled_autograd_cache": True,
    "bypass_autograd_cache_key": True,
    "strict_autograd_cache": False,
    "force_non_lazy_backward_lowering": True,
}


def _is_guarded() -> bool:
    """Returns whether Dynamo checks the arguments: it traced the whole function and calls it with its own
    inputs."""
    context = TracingContext.try_get()
    return context is not None and context.fake_mode is not None and context.ddp_optimizer_ctx is None


@dataclass(kw_only=True, eq=False)
class Compilation:
    """One run of torch's compile flow, with the backend's inner compiler.

    `is_guarded`: whether Dynamo checks the arguments. `ignores_shape_env`: whether sizes are specialized to
    the example inputs, even if the graph has symbolic sizes.
    """

    options: BackendOptions
    emitter: Emitter[object]
    store: Store | None = None
    function: FunctionInfo
    is_guarded: bool = field(default_factory=_is_guarded)
    ignores_shape_env: bool = False
    checks: Sequence[ModelCheck] = ()

    def __post_init__(self) -> None:
        self.inductor_options = known_options(inductor_patches(self.options.capture), inductor_config)
        falls_back = self.options.on_unsupported == "inductor"
        self.fallback = Fallback(self.inductor_options, self.functorch_options()) if falls_back else None

    def run(self, gm: GraphModule, inputs: Sequence[InputType]) -> Callable[..., object]:
        """Compiles the function and returns its callable."""
        options = known_options(self.functorch_options(), functorch_config)
        self.checks = graph_checks(gm)
        keep_equalities(gm)
        with functorch_config.patch(options), patterns_as_needed(), fresh_fakes():
            # Torch applies the patches again when it compiles a backward graph lazily.
            compiled = compile_fx(
                gm,
                inputs,
                inner_compile=self.inner,  # type: ignore[arg-type]  # any boxed callable works
                config_patches={**self.options.inductor, **self.inductor_options},
                ignore_shape_env=self.ignores_shape_env,
            )
        assert callable(compiled)
        return compiled

    def functorch_options(self) -> dict[str, object]:
        """Returns the options of torch's cache."""
        return functorch_patches()

    def inner(self, gm: GraphModule, inputs: Sequence[InputType], *_: object, **facts: object) -> Boxed:
        """Compiles one graph and returns its callable."""
        return self.compile(GraphRequest(gm, inputs, facts, self.checks))[0]

    def compile(self, request: GraphRequest) -> tuple[Boxed, str]:
        """Compiles a graph, by Inductor if it is refused. Returns it with its cache key ("" if it is not
        cached)."""
        if self.fallback is not None:
            return self.fallback.compile(request, self.captured)
        return counting_faults(request, self.captured)

    def captured(self, request: GraphRequest) -> tuple[Boxed, str]:
        """Compiles a graph through a program. Returns it with its cache key ("" if it is not cached)."""
        graph, key = compile_graph(request, self.options, self.store)
        return self.boxed(graph, request), key

    def boxed(self, graph: CompiledGraph, request: GraphRequest) -> Boxed:
        """Compiles the program of a requested graph, and returns its callable."""
        facts = CallFacts(
            is_guarded=self.is_guarded and not request.is_backward,
            kind=request.kind,
            graph_id=request.facts.get("graph_id"),
            function=self.function,
            from_cache=graph.is_from_cache,
        )
        return boxed(graph, self.emitter, facts)


@dataclass(kw_only=True, eq=False)
class ReportingCompilation(Compilation):
    """A compilation after which torch reports the runtime wrappers of the graphs."""

    symbols: SymbolState
    _guards: int = 0

    def functorch_options(self) -> dict[str, object]:
        """Returns the options under which torch reports the runtime wrappers."""
        return {**functorch_patches(), **_REPORTING}

    def run(self, gm: GraphModule, inputs: Sequence[InputType]) -> Callable[..., object]:
        """Compiles the function and returns its callable."""
        self._guards = _aliasing_guards()
        state = random.getstate()  # torch draws its random cache key from this generator
        try:
            return super().run(gm, inputs)
        finally:
            random.setstate(state)

    def facts(self, compiled: Callable[..., object]) -> RuntimeFacts:
        """Returns the runtime facts of the function that `run` compiled. Raises NoCanonicalForm."""
        if _aliasing_guards() != self._guards:
            raise NoCanonicalForm("inputs that share memory")
        return _runtime_facts(compiled, self.symbols)


@dataclass(kw_only=True, eq=False)
class StoredCompilation(ReportingCompilation):
    """A compilation that is stored as a whole at the end: after its backward graph, if it has one."""

    store: Store
    key: str
    forward: str = ""
    backward: tuple[str, bool] | None = None
    encoded: dict[str, Json] | None = None
    has_backward: bool = False

    def run(self, gm: GraphModule, inputs: Sequence[InputType]) -> Callable[..., object]:
        """Compiles the function, stores it if it is complete, and returns its callable."""
        compiled = super().run(gm, inputs)
        try:
            self.encoded = encode_facts(self.facts(compiled))
        except NoCanonicalForm as error:
            count_bypass(f"function: {error}")
        self.store_if_complete()
        return compiled

    def inner(self, gm: GraphModule, inputs: Sequence[InputType], *_: object, **facts: object) -> Boxed:
        """Compiles one graph. A backward graph without symbolic sizes as inputs is compiled on its first
        call."""
        request = GraphRequest(gm, inputs, facts, self.checks)
        if not request.is_backward:
            call, self.forward = self.compile(request)
            return call
        self.has_backward = True
        if not any(isinstance(x, torch.SymInt) for x in inputs):
            return deferred(_LazyBackward(self, request).make)
        # Dynamo needs the guards of this graph before the forward graph runs.
        call, key = self.compile(request)
        self.backward = (key, False)  # torch reports a second backward pass itself
        return call

    def store_if_complete(self) -> None:
        """Stores the function if all of its graphs are compiled."""
        complete = (
            self.encoded is not None and self.forward and self.has_backward == (self.backward is not None)
        )
        if complete and self.encoded is not None and (self.backward is None or self.backward[0]):
            try:
                store_function(self.store, self.key, self.encoded, self.forward, self.backward)
            except StoreError as error:
                count_bypass(f"function: {error}")


class _LazyBackward:
    """A backward graph that is compiled on its first call, in the tracing context of its request."""

    def __init__(self, owner: StoredCompilation, request: GraphRequest) -> None:
        self._owner = owner
        self._request = request
        self._tracing = TracingContext.get()
        self._compile = CompileContext.get()
        # Torch checks before every call that this list is empty; `calling.deferred` checks instead.
        metadata = self._tracing.fw_metadata
        self._reusable: list[int] = [] if metadata is None else metadata.bw_donated_idxs or []
        self._donated = tuple(self._reusable)
        self._reusable.clear()

    def make(self, keep: bool) -> tuple[Boxed, bool]:
        """Compiles the graph. Unless `keep`, the code may overwrite the tensors that forward saved."""
        with ExitStack() as stack:
            stack.enter_context(tracing(self._tracing))
            stack.enter_context(compile_context(self._compile))
            stack.enter_context(torch._C._DisableAutocast())
            stack.enter_context(inductor_config.patch(dict(self._owner.options.inductor)))
            if not keep:
                self._reusable.extend(self._donated)
            stack.callback(self._reusable.clear)
            call, key = self._owner.compile(self._request)
        overwrites = bool(self._donated) and not keep
        self._owner.backward = (key, overwrites)
        self._owner.store_if_complete()
        return call, overwrites


def _aliasing_guards() -> int:
    """Returns the number of guards on aliased inputs that autograd has added."""
    context = TracingContext.try_get()
    return 0 if context is None else len(context.guards_context.aotautograd_guards)


def _runtime_facts(compiled: object, symbols: SymbolState) -> RuntimeFacts:
    """Returns what torch reports about a compiled function. Raises NoCanonicalForm."""
    serialize = getattr(compiled, "serialize", None)  # set by torch on the callable
    report = serialize() if callable(serialize) else None
    if report is None:
        raise NoCanonicalForm("torch does not report the runtime wrappers of the graphs")
    if report.maybe_subclass_meta is not None:
        raise NoCanonicalForm("tensor subclasses")
    if any(getattr(w, "needs_post_compile", True) for w in report.dispatch_wrappers):
        raise NoCanonicalForm("inputs that share memory")
    if report.runtime_metadata.tokens or report.runtime_metadata.num_backward_tokens:
        raise NoCanonicalForm("effect tokens")
    backward = report.compiled_bw
    if backward is not None and backward.backward_state_indices:
        raise NoCanonicalForm("backward hooks")
    return RuntimeFacts(
        metadata=report.runtime_metadata,
        detached=tuple(report.indices_of_inps_to_detach),
        saved=report.num_fw_outs_saved_for_bw,
        saved_sizes=0 if backward is None else backward.num_symints_saved_for_bw_,
        guards=symbols.new_guards(),
    )
