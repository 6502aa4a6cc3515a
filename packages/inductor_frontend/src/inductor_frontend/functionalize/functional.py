"""From a graph with operators in place to a functional one: torch's AOTAutograd, without its run-time wrappers.

It is the step that torch.compile takes, so that programs compute what torch.compile computes. What its wrappers would
do around every call is read from its metadata, and ends up in the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.descriptors import PlainAOTInput
from torch._functorch._aot_autograd.graph_compile import aot_stage1_graph_capture
from torch._functorch._aot_autograd.schemas import AOTConfig, OutputType
from torch._guards import TracingContext, tracing
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts
from torch.fx.traceback import preserve_node_meta

from inductor_frontend.functionalize.streams import writing_to_inputs

# Any in this file: fake tensors and symbolic numbers.
Flat = Callable[..., Sequence[Any]]


@dataclass(frozen=True, slots=True)
class FunctionalGraph:
    """A functional graph, in which only copies into inputs at the end write anything.

    `outputs` are the graph's own. Subclasses of tensors are taken apart: `layouts` says for each output of the function what it wraps (torch's
    SubclassCreationMeta, untyped; None for plain ones), in the order of the graph's outputs. `identical` says for each
    output the input that it is, or None.
    """

    gm: fx.GraphModule
    outputs: tuple[Any, ...]
    layouts: tuple[Any, ...]
    identical: tuple[int | None, ...]


def graph_function(gm: fx.GraphModule) -> Flat:
    """A graph module as a function of tensors and numbers; nodes traced from it keep where they come from."""

    def run(*args: Any) -> Sequence[Any]:
        with preserve_node_meta():
            outputs: Sequence[Any] = PropagateUnbackedSymInts(gm).run(*args)
        return list(outputs)

    return run


def written_inputs(function: Flat, inputs: Sequence[Any], fake_mode: FakeTensorMode) -> frozenset[int]:
    """The inputs whose elements the function changes."""
    with _analysed(function, inputs, fake_mode) as state:
        return frozenset(i for i, info in enumerate(state.fw_metadata.input_info) if info.mutates_data)


def functionalise(function: Flat, inputs: Sequence[Any], fake_mode: FakeTensorMode) -> FunctionalGraph:
    """Traces a function of fake inputs, no two of which may share memory that is written."""
    with _analysed(function, inputs, fake_mode) as state:
        infos = state.fw_metadata.output_info
        captured = aot_stage1_graph_capture(state, function)  # type: ignore[arg-type]  # torch's alias for such functions
        layouts = state.fw_metadata.subclass_fw_graph_out_meta
    identical = tuple(i.base_idx if i.output_type is OutputType.is_input else None for i in infos)
    wrappers = tuple(layout if hasattr(layout, "attrs") else None for layout in layouts)
    gm = captured.graph_module
    outputs: Any = gm.graph.output_node().args[0]
    return FunctionalGraph(gm, tuple(outputs), wrappers, identical)


@contextmanager
def _analysed(function: Flat, inputs: Sequence[Any], fake_mode: FakeTensorMode) -> Iterator[Any]:
    """Torch's analysis of a function; the graph must be captured inside."""
    config = AOTConfig(
        fw_compiler=None,
        bw_compiler=None,
        partition_fn=None,
        decompositions=dict(select_decomp_table()),
        num_params_buffers=0,
        aot_id=next(aot_autograd.AOT_COUNTER),
        keep_inference_input_mutations=True,
        dynamic_shapes=fake_mode.shape_env is not None,
    )
    descriptors = [PlainAOTInput(i) for i in range(len(inputs))]
    with ExitStack() as stack:
        stack.enter_context(
            functorch_config.patch(unlift_effect_tokens=True)
        )  # the caller has no tokens to give
        stack.enter_context(torch.no_grad())
        stack.enter_context(writing_to_inputs())
        stack.enter_context(tracing(TracingContext(fake_mode)))
        arguments: Any = (stack, function, list(inputs), descriptors, config, fake_mode, fake_mode.shape_env)
        yield aot_autograd.create_aot_state(*arguments)
