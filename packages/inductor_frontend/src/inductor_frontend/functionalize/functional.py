"""Functionalizes a graph with in-place operators by torch's AOTAutograd, without its runtime wrappers.

torch.compile takes the same step, so programs compute the same results. The actions of the runtime wrappers
are read from AOTAutograd's metadata and become part of the signature.
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
Flat = Callable[..., Sequence[object]]


@dataclass(frozen=True, slots=True)
class FunctionalGraph:
    """A functional graph, whose only writes are copies into inputs at its end.

    `outputs`: the outputs of the graph. Tensor subclasses are flattened. `layouts`: for each output of the
    function its wrapper (torch's SubclassCreationMeta, untyped), None if it is plain, in the order of the
    graph's outputs.
    `identical`: for each output the position of the input that it is, or None.
    """

    gm: fx.GraphModule
    outputs: tuple[object, ...]
    layouts: tuple[Any, ...]
    identical: tuple[int | None, ...]


def graph_function(gm: fx.GraphModule) -> Flat:
    """Returns a graph module as a function of tensors and numbers. Nodes traced from it keep their
    metadata."""

    def run(*args: object) -> Sequence[object]:
        with preserve_node_meta():
            outputs: Sequence[object] = PropagateUnbackedSymInts(gm).run(*args)
        return list(outputs)

    return run


def written_inputs(function: Flat, inputs: Sequence[object], fake_mode: FakeTensorMode) -> frozenset[int]:
    """Returns the positions of the inputs whose elements the function writes."""
    with _analysed(function, inputs, fake_mode) as state:
        return frozenset(i for i, info in enumerate(state.fw_metadata.input_info) if info.mutates_data)


def functionalise(function: Flat, inputs: Sequence[object], fake_mode: FakeTensorMode) -> FunctionalGraph:
    """Traces a function to a functional graph. No two of the fake inputs may share memory that is written."""
    with _analysed(function, inputs, fake_mode) as state:
        infos = state.fw_metadata.output_info
        captured = aot_stage1_graph_capture(state, function)  # type: ignore[arg-type]  # torch's own alias
        layouts = state.fw_metadata.subclass_fw_graph_out_meta
    identical = tuple(i.base_idx if i.output_type is OutputType.is_input else None for i in infos)
    wrappers = tuple(layout if hasattr(layout, "attrs") else None for layout in layouts)
    gm = captured.graph_module
    outputs: Any = gm.graph.output_node().args[0]
    return FunctionalGraph(gm, tuple(outputs), wrappers, identical)


@contextmanager
def _analysed(function: Flat, inputs: Sequence[object], fake_mode: FakeTensorMode) -> Iterator[Any]:
    """Runs torch's analysis of a function; the graph must be captured inside the context."""
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
        stack.enter_context(functorch_config.patch(unlift_effect_tokens=True))  # the caller passes no tokens
        stack.enter_context(torch.no_grad())
        stack.enter_context(writing_to_inputs())
        stack.enter_context(tracing(TracingContext(fake_mode)))
        arguments: Any = (stack, function, list(inputs), descriptors, config, fake_mode, fake_mode.shape_env)
        yield aot_autograd.create_aot_state(*arguments)
