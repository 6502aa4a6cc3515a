"""A function out of the cache, put back into what torch's autograd puts around compiled graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

import torch
from torch._dynamo import compiled_autograd
from torch._functorch._aot_autograd.aot_autograd_result import (
    GenericAOTAutogradResult,
    GenericCompiledBackward,
    InductorOutput,
)
from torch._functorch.aot_autograd import prepare_aot_module_simplified
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule

from inductor_frontend.backend.calling import Boxed, CallFacts, boxed, deferred
from inductor_frontend.backend.live_graphs import FunctionInfo
from inductor_frontend.cache.function_entry import CompiledFunction
from inductor_frontend.errors import BackendError
from wrapper_ir.plugins.protocols import Emitter

# Any in this file: tensors and numbers, and torch's untyped records.


@dataclass
class _Ready(InductorOutput[Any]):
    """A compiled graph where torch expects one that it would load."""

    call: Boxed

    def pre_save(self) -> None:
        """Nothing: it came from our cache and goes into none."""

    def load(self, example_inputs: Sequence[Any]) -> Any:
        """The callable."""
        return self.call

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        """The callable, unchanged."""
        return result


@dataclass
class _ReadyBackward(GenericCompiledBackward[Any], _Ready):
    """The same for a backward graph."""

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        """The callable, hidden from Dynamo."""
        return _hidden(result, "compiled backward graph")


class _NoGraph:
    """Where torch keeps the backward graph for compiled autograd, which traces it: our cache keeps programs only."""

    def deserialize(self) -> NoReturn:
        """Refuses."""
        raise BackendError(
            "FE403",
            "a function out of the cache has no backward graph that compiled autograd could trace",
            hint="set torch._dynamo.config.compiled_autograd before the first call, or options={'cache': False}",
        )


def restore(
    found: CompiledFunction,
    gm: GraphModule,
    inputs: Sequence[Any],
    emitter: Emitter[Any],
    function: FunctionInfo | None = None,
    *,
    is_guarded: bool = True,
) -> Callable[..., Any]:
    """The callable that torch's autograd would have made around the graphs of `found`, whose inputs Dynamo checks where
    `is_guarded`; `function` is the record of what they are part of. Raises BackendError."""
    kind = "inference" if found.backward is None else "forward"
    facts = CallFacts(is_guarded=is_guarded, kind=kind, function=function or FunctionInfo(), from_cache=True)
    with ExitStack() as stack:
        context = TracingContext.try_get()
        assert context is not None  # functions are cached under Dynamo only
        stack.enter_context(tracing(context))
        stack.enter_context(compiled_autograd._disable())
        prepared = prepare_aot_module_simplified(gm, inputs, **_preparation())
        parameters, fake_inputs, config = prepared[1], prepared[4], prepared[6]
        run = _result(found, emitter, facts).wrap_post_compile(fake_inputs, config, {})

    def call(*args: Any) -> Any:
        return run([*parameters, *args])

    return _hidden(call, "compiled function")


def _hidden(call: Callable[..., Any], reason: str) -> Callable[..., Any]:
    """`call`, which Dynamo does not look into."""
    disable: Any = torch._dynamo.disable  # torch leaves it untyped
    hidden: Callable[..., Any] = disable(call, reason=reason)
    return hidden


def _preparation() -> dict[str, Any]:
    """Arguments as torch's own compile flow gives them; versions of torch differ in which there are."""
    wanted = {
        "kwargs": None,
        "decompositions": None,
        "keep_inference_input_mutations": True,
        "boxed_forward_device_index": None,
        "ignore_shape_env": False,
        "flatten": False,
    }
    known = inspect.signature(prepare_aot_module_simplified).parameters
    return {name: value for name, value in wanted.items() if name in known}


def _result(
    found: CompiledFunction, emitter: Emitter[Any], call: CallFacts
) -> GenericAOTAutogradResult[Any, Any]:
    """Torch's record of a compiled function; what it keeps for its logs is left empty."""
    facts = found.facts
    backward = None
    if found.backward is not None:
        kept, later = found.backward, replace(call, is_guarded=False, kind="backward")
        backward = _ReadyBackward(
            call=deferred(lambda keep: (boxed(kept.graph, emitter, later), kept.overwrites)),
            backward_state_indices=[],
            num_symints_saved_for_bw_=facts.saved_sizes,
        )
    known: dict[str, Any] = {
        "compiled_fw": _Ready(boxed(found.forward, emitter, call)),
        "compiled_bw": backward,
        "runtime_metadata": facts.metadata,
        "dispatch_wrappers": [],
        "num_fw_outs_saved_for_bw": facts.saved,
        "indices_of_inps_to_detach": list(facts.detached),
        "forward_time_taken_ns": 0,
        "backward_time_taken_ns": 0,
        "serialized_bw_module": _NoGraph(),
    }
    names = [f.name for f in fields(GenericAOTAutogradResult)]
    return GenericAOTAutogradResult(**{name: known.get(name) for name in names})  # type: ignore[arg-type]  # by name
