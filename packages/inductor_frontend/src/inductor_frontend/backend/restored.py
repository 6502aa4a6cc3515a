"""Restores a function from the cache, with the runtime wrappers of torch's autograd."""

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

from inductor_frontend.backend.calling import CallFacts, boxed, deferred
from inductor_frontend.backend.live_graphs import FunctionInfo
from inductor_frontend.boxed import Boxed
from inductor_frontend.cache.function_entry import CompiledFunction
from inductor_frontend.errors import BackendError
from wrapper_ir.plugins.protocols import Emitter

# Any in this file: tensors and numbers, and torch's untyped objects.


@dataclass
class _Ready(InductorOutput[Any]):
    """A loaded graph in place of torch's cache entry, which loads one."""

    call: Boxed

    def pre_save(self) -> None:
        """Does nothing: the graph is never stored in torch's cache."""

    def load(self, example_inputs: Sequence[object]) -> Any:
        """Returns the callable."""
        return self.call

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        """Returns the callable unchanged."""
        return result


@dataclass
class _ReadyBackward(GenericCompiledBackward[Any], _Ready):
    """A loaded backward graph."""

    def post_compile(self, result: Any, fx_config: Any) -> Any:
        """Returns the callable, hidden from Dynamo."""
        return _hidden(result, "compiled backward graph")


class _NoGraph:
    """Placeholder for the backward graph that compiled autograd traces: the backend caches programs only."""

    def deserialize(self) -> NoReturn:
        """Raises BackendError FE403."""
        raise BackendError(
            "FE403",
            "a function from the cache or a file has no backward graph that compiled autograd can trace",
            hint="set torch._dynamo.config.compiled_autograd before the first call, "
            "or options={'cache': False}; functions compiled ahead of time need torch's own autograd",
        )


def restore(
    entry: CompiledFunction,
    gm: GraphModule,
    inputs: Sequence[object],
    emitter: Emitter[object],
    function: FunctionInfo | None = None,
    *,
    is_guarded: bool = True,
) -> Callable[..., object]:
    """Returns the graphs of `entry` in the runtime wrappers of torch's autograd, as one callable.

    `is_guarded`: whether Dynamo checks the inputs. `function` describes the function for tools. Raises
    BackendError.
    """
    kind = "inference" if entry.backward is None else "forward"
    facts = CallFacts(is_guarded=is_guarded, kind=kind, function=function or FunctionInfo(), from_cache=True)
    with ExitStack() as stack:
        context = TracingContext.try_get()
        assert context is not None  # functions are cached under Dynamo only
        stack.enter_context(tracing(context))
        stack.enter_context(compiled_autograd._disable())
        prepared = prepare_aot_module_simplified(gm, inputs, **_preparation())
        parameters, fake_inputs, config = prepared[1], prepared[4], prepared[6]
        run = _result(entry, emitter, facts).wrap_post_compile(fake_inputs, config, {})

    def call(*args: object) -> Any:
        return run([*parameters, *args])

    return _hidden(call, "compiled function")


def _hidden(call: Callable[..., object], reason: str) -> Callable[..., object]:
    """Returns `call`, which Dynamo does not trace."""
    disable: Any = torch._dynamo.disable  # torch leaves it untyped
    hidden: Callable[..., object] = disable(call, reason=reason)
    return hidden


def _preparation() -> dict[str, Any]:
    """Returns the arguments that torch's compile flow passes; versions of torch have different parameters."""
    arguments = {
        "kwargs": None,
        "decompositions": None,
        "keep_inference_input_mutations": True,
        "boxed_forward_device_index": None,
        "ignore_shape_env": False,
        "flatten": False,
    }
    parameters = inspect.signature(prepare_aot_module_simplified).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


def _result(
    entry: CompiledFunction, emitter: Emitter[object], call: CallFacts
) -> GenericAOTAutogradResult[Any, Any]:
    """Creates torch's cache entry of a compiled function; fields that only its logs read stay empty."""
    facts = entry.facts
    backward = None
    if entry.backward is not None:
        saved, calls = entry.backward, replace(call, is_guarded=False, kind="backward")
        backward = _ReadyBackward(
            call=deferred(lambda keep: (boxed(saved.graph, emitter, calls), saved.overwrites)),
            backward_state_indices=[],
            num_symints_saved_for_bw_=facts.saved_sizes,
        )
    values: dict[str, object] = {
        "compiled_fw": _Ready(boxed(entry.forward, emitter, call)),
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
    fields_by_name: Any = {name: values.get(name) for name in names}  # versions of torch have other fields
    return GenericAOTAutogradResult(**fields_by_name)
