"""Runs Inductor's passes and lowering over a functional FX graph, with hooks installed for this graph
only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from logging import INFO
from typing import TYPE_CHECKING

import torch
from torch._inductor import metrics
from torch._inductor.compile_fx import (
    _recursive_post_grad_passes,
    _recursive_record_original_output_strides,
    fake_tensor_prop,
    get_input_idxs_to_check,
    inductor_metrics_log,
    maybe_disable_comprehensive_padding,
    post_grad_graphs_log,
)
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.virtualized import V
from torch._logging._internal import trace_structured
from torch.fx import GraphModule
from torch.fx._utils import lazy_format_graph_code
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from inductor_frontend.errors import ConversionError, at_node, torch_step
from inductor_frontend.export.tensor_kinds import lacks_type
from inductor_frontend.lazy_bits import without_bits
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.record.lowering_hints import lowering_hint
from inductor_frontend.record.partials import recording_partials
from inductor_frontend.record.replacement_traces import equal_replacements_traced_once
from inductor_frontend.record.resizes import check_resizes
from inductor_frontend.record.returned_literals import copy_returned_literals
from inductor_frontend.record.snapshots import keep_old_values
from inductor_frontend.record.split_matmuls import split_matmuls
from inductor_frontend.torch_patches._compat import decomposition_argument, shape_env_from_inputs
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import DESCRIPTORS
from wrapper_ir_torch.fused_layers import fuse_layers

if TYPE_CHECKING:
    from torch._inductor.utils import InputType


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweringRequest:
    """A functional graph to lower. `inputs` are its (fake) inputs; `static_inputs` the positions of weights.

    `graph_id` numbers graphs for Inductor's logs. `options` choose which matmuls are split, and which layers
    are fused.
    """

    gm: GraphModule
    inputs: Sequence[InputType]
    static_inputs: Sequence[int] = ()
    is_inference: bool = True
    is_backward: bool = False
    graph_id: int | None = None
    options: CaptureOptions = field(default_factory=CaptureOptions)


@contextmanager
def recorded(request: LoweringRequest) -> Iterator[RecordingGraph]:
    """Runs post-grad passes, lowering and scheduling. Yields the graph with its recording.

    Recordings must be read inside this context, which is Inductor's too. Inductor's passes mutate the graph
    module. Raises HookError, ConversionError FE305 for sparse tensors, and CaptureError FE104 for refusals of
    Inductor.
    """
    gm = request.gm
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        # The caller may be tracing, and this code also reads real tensors.
        stack.enter_context(_disable_current_modes())
        inputs = without_bits(gm, request.inputs)
        with torch_step("FE104", "Inductor cannot lower the graph", lowering_hint(gm, inputs)):
            view_to_reshape(gm)  # type: ignore[no-untyped-call]  # Inductor's
            fake_mode = fake_tensor_prop(gm, inputs, force_allow_non_fake_inputs=True)
            _refuse_values(gm)
            _recursive_record_original_output_strides(gm)
            stack.enter_context(V.set_fake_mode(fake_mode))
            check_resizes(gm)
            keep_old_values(gm, fake_mode)
            with equal_replacements_traced_once():
                _recursive_post_grad_passes(gm, is_inference=request.is_inference)
            copy_returned_literals(gm)
            decisions = split_matmuls(gm) if request.options.matmuls == "split" else ()
            fuse_layers(gm, request.options.fused_convolutions, request.options.fused_int8_layers)
            _log_graph(gm)
            stack.enter_context(maybe_disable_comprehensive_padding(inputs))
            stack.enter_context(DebugContext())
            graph = _graph(replace(request, inputs=inputs))
            graph.matmul_decisions = decisions
            stack.enter_context(V.set_graph_handler(graph))
            stack.enter_context(replaced(DESCRIPTORS.by(_CACHE={})))
            stack.enter_context(recording_partials())
            stack.enter_context(V.set_extern_kernel_nodes([]))
            graph.run(*inputs)
            graph.codegen()
            _log_metrics(graph)
        yield graph


def _log_graph(gm: GraphModule) -> None:
    """Logs the graph as torch does: to `TORCH_LOGS=post_grad_graphs` and to tlparse."""
    code = lazy_format_graph_code(
        "AFTER POST GRAD", gm, include_stride=True, include_device=True, colored=True
    )
    post_grad_graphs_log.debug("%s", code)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "inductor_post_grad_graph", "encoding": "string"},
        payload_fn=lambda: gm.print_readable(print_output=False, include_stride=True, include_device=True),
    )


def _log_metrics(graph: RecordingGraph) -> None:
    """Logs Inductor's estimates of the scheduled graph as torch does: to `TORCH_LOGS=inductor_metrics`."""
    if not inductor_metrics_log.isEnabledFor(INFO):
        return
    num_bytes, elements, runtimes = graph.count_bytes()
    metrics.num_bytes_accessed += num_bytes
    metrics.nodes_num_elem += elements
    metrics.node_runtimes += runtimes
    estimates = {"num_bytes_accessed": num_bytes, "nodes_num_elem": elements, "node_runtimes": runtimes}
    inductor_metrics_log.info("Graph Metrics:\n%s", estimates)


def _refuse_values(gm: GraphModule) -> None:
    """Refuses values without a type in the IR, such as sparse tensors and script objects.

    Inductor assigns sizes and strides to sparse values, which no tensor at run time has, and reads them from
    objects.
    """
    for node in gm.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            kind = lacks_type(value) if isinstance(value, torch.Tensor) and not value.is_mkldnn else ""
            if node.op == "call_function" and type(value) is torch.ScriptObject:
                kind = f"a {value._type().qualified_name()}, which has no typed form"
            if kind:
                place = at_node(node.name, str(node.target))
                raise ConversionError(
                    "FE305", f"a value is {kind}{place}", hint="keep such tensors out of what is captured"
                )


def _graph(request: LoweringRequest) -> RecordingGraph:
    shape_env = getattr(request.gm, "shape_env", None) or shape_env_from_inputs(request.inputs)
    graph = RecordingGraph(
        request.gm,
        example_inputs=request.inputs,
        shape_env=shape_env,
        graph_id=request.graph_id,
        is_inference=request.is_inference,
        is_backward=request.is_backward,
        inputs_to_check=get_input_idxs_to_check(request.inputs, request.static_inputs),
        **decomposition_argument(),
    )
    graph.freeze_runtime_asserts()
    return graph
