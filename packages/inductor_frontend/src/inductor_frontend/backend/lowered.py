"""Compiles one graph to a program: torch's passes, lowering and scheduling, then translation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType

from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from inductor_frontend.backend.live_graphs import graph_text
from inductor_frontend.backend.node_origins import dynamo_nodes
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.backend.preparing import compile_early
from inductor_frontend.backend.request import GraphRequest
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.cache.metrics import Watch
from inductor_frontend.cache.sizes import Size
from inductor_frontend.cache.symbols import SymbolState
from inductor_frontend.constants import tensor_data
from inductor_frontend.functionalize.packed_linear import join_packed_linear
from inductor_frontend.guards.trace_guards import TraceGuards
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.record.lowering import LoweringRequest, recorded
from inductor_frontend.translate.explained import PIPELINE, explaining_extensions, stage_extensions
from inductor_frontend.translate.finish import finish
from inductor_frontend.translate.program import BuildContext, GraphProgram, build_program
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline


def compile_anew(request: GraphRequest, options: BackendOptions, symbols: SymbolState) -> CompiledGraph:
    """Lowers and translates a graph, inside a capture session. Raises CaptureError, HookError,
    ConversionError."""
    facts, watch = request.facts, Watch()
    aot_graph = graph_text(request.gm)
    join_packed_linear(request.gm)
    lowering = LoweringRequest(
        gm=request.gm,
        inputs=request.inputs,
        static_inputs=request.static_inputs,
        is_inference=bool(facts.get("is_inference", False)),
        is_backward=request.is_backward,
        graph_id=facts.get("graph_id"),
        options=options.capture,
    )
    context = BuildContext(
        guards=TraceGuards(checks=request.checks), options=options.capture, root=os.getcwd()
    )
    with recorded(lowering) as recording:
        strides = _output_strides(recording)
        translation = build_program(recording, context)
    if not options.tune:
        compile_early(translation.program)
    stages = stage_extensions(aot_graph, translation.program, dynamo_nodes(request.gm.graph))
    return CompiledGraph(
        artifact=_artifact(translation, options, lowering.static_inputs, stages),
        inputs=len(request.inputs),
        positions=translation.positions,
        strides=tuple(strides),
        guards=symbols.new_guards(),
        outer=translation.outer,
        counts=watch.counts(),
        lazy=request.lazy_inputs,
    )


def _output_strides(graph: RecordingGraph) -> list[tuple[Size, ...] | None]:
    """Returns the strides of each result; None if it is not a tensor, or has strides known only at run
    time."""
    strides: list[tuple[Size, ...] | None] = []
    for out in graph.graph_outputs:
        is_static = out.has_tensor_output() and not free_unbacked_symbols(out.get_stride())
        strides.append(tuple(out.get_layout().stride) if is_static else None)
    return strides


def _artifact(
    translation: GraphProgram, options: BackendOptions, static: Sequence[int], stages: Mapping[str, str]
) -> Artifact:
    analyses = finish(translation.program, options.capture)
    program, passes = analyses.program, options.host_pipeline
    device = program.target.device
    records = options.uses_cuda_graphs and not _is_host(device)
    if device.traits.plans_memory or records:
        passes = options.pipeline
    if records:
        weights = set(static)
        program = _with_static(program, {i for i, at in enumerate(translation.positions) if at in weights})
    if passes:
        program = run_pipeline(program, passes, analyses=analyses)
    constants = {name: tensor_data(name, t) for name, t in translation.constants.items()}
    artifact = bare_artifact(program, constants, analyses)
    extensions = explaining_extensions(program, translation.sources, options.capture, translation.matmuls)
    extensions |= stages
    return replace(
        artifact,
        extensions=MappingProxyType(extensions),
        metadata=MappingProxyType({**artifact.metadata, PIPELINE: passes}),
    )


def _is_host(device: ir.Device) -> bool:
    return device == ir.CPU


def _with_static(program: ir.Program, positions: Set[int]) -> ir.Program:
    """Marks the tensor parameters of main at `positions` static: weights, and tensors that a forward graph
    saves."""
    params = [
        replace(p, static=i in positions and ir.is_tensor(p.value)) for i, p in enumerate(program.main.params)
    ]
    return program.with_functions((replace(program.main, params=tuple(params)), *program.functions[1:]))
