"""Compiles one function that Dynamo passes to the backend, or loads it from the cache."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch._guards import TracingContext
from torch._inductor import config as inductor_config
from torch.fx import GraphModule

from inductor_frontend.backend.live_graphs import FunctionInfo, GraphInfo, describe_function
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.preparing import prepare_kernels
from inductor_frontend.backend.restored import restore
from inductor_frontend.cache.function_entry import find_function
from inductor_frontend.cache.keys import function_key
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.statistics import count_bypass
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.errors import CaptureError
from inductor_frontend.functionalize.resizes import lend
from inductor_frontend.lazy_bits import share_lazily

if TYPE_CHECKING:
    from torch._inductor.utils import InputType

_LOG = logging.getLogger(__name__)


def compile_function(
    gm: GraphModule,
    inputs: Sequence[InputType],
    options: BackendOptions,
    observers: tuple[Callable[[GraphInfo], object], ...] = (),
) -> Callable[..., object]:
    """Compiles a function; `observers` are called with each of its graphs when that is compiled.

    Raises CaptureError, HookError, ConversionError and BackendError; after a fallback to Inductor, its
    errors. If inputs with lazy bits share memory, the function stays in eager mode, or is refused with
    CaptureError FE106.
    """
    if share_lazily(inputs):
        return _eager(gm, options)
    gm = lend(gm, inputs)
    with inductor_config.patch(dict(options.inductor)):
        return _compiled(gm, inputs, options, describe_function(gm, observers))


def _eager(gm: GraphModule, options: BackendOptions) -> Callable[..., object]:
    refusal = CaptureError(
        "FE106",
        "an input with the conjugate or negative bit shares the memory of another input",
        hint="pass x.resolve_conj() or x.resolve_neg()",
    )
    if options.on_unsupported == "error":
        raise refusal
    _LOG.info("a function stays in eager mode: %s", refusal)
    return gm.forward


def _compiled(
    gm: GraphModule, inputs: Sequence[InputType], options: BackendOptions, function: FunctionInfo
) -> Callable[..., object]:
    emitter, store = options.find_emitter(), options.store()
    if torch.compiler.config.force_disable_caches:
        store = None
    key, symbols = "", SymbolState(None)
    if store is not None and options.memory_report is None:  # the report is written for each compiled graph
        context = TracingContext.try_get()
        symbols = SymbolState(getattr(getattr(context, "fake_mode", None), "shape_env", None))
        try:
            _require_plain_context(context)
            key = function_key(gm, inputs, symbols, options.choices())
        except NoCanonicalForm as error:
            count_bypass(f"function: {error}")
        entry = find_function(store, key, symbols) if key else None
        if entry is not None:
            symbols.add(entry.facts.guards)
            return restore(entry, gm, inputs, emitter, replace(function, from_cache=True))
    prepare_kernels(inputs)
    # Imported here: a function from the cache does not need the compiler, which imports most of Inductor.
    from inductor_frontend.backend.compilation import Compilation, StoredCompilation

    if store is None or not key:  # each graph is loaded from the cache if it is cached
        compilation = Compilation(options=options, emitter=emitter, store=store, function=function)
    else:
        compilation = StoredCompilation(
            options=options, emitter=emitter, store=store, key=key, symbols=symbols, function=function
        )
    return compilation.run(gm, inputs)


def _require_plain_context(context: TracingContext | None) -> None:
    """Raises NoCanonicalForm if Dynamo did not trace the function, or another component splits it."""
    if context is None or context.fake_mode is None:
        raise NoCanonicalForm("a graph that is not Dynamo's")
    if context.fakify_first_call:
        raise NoCanonicalForm("a first call on fake tensors")
    if context.ddp_optimizer_ctx is not None:
        raise NoCanonicalForm("a graph split for distributed training")
    if torch._dynamo.config.compiled_autograd or torch._dynamo.compiled_autograd.in_compiled_autograd_region:
        raise NoCanonicalForm("compiled autograd")
