"""`capture`: compiles a model with example arguments to an artifact."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import torch
from torch.export import ExportedProgram

from inductor_frontend.constants import is_packed, tensor_data
from inductor_frontend.devices.isa_sources import capture_for_each
from inductor_frontend.devices.targets import capture_target
from inductor_frontend.eager import eager_run
from inductor_frontend.errors import CaptureError, HookError
from inductor_frontend.export.combinations import traced_combinations
from inductor_frontend.export.empty_sizes import layouts_of_empty_tensors, with_empty_sizes
from inductor_frontend.export.exported import export_model
from inductor_frontend.export.mixed_up import refuse_mixed_up
from inductor_frontend.export.state_names import StateNames, state_names
from inductor_frontend.export.tensor_kinds import blamed_on_sparse, require_types
from inductor_frontend.export.torch_export import any_size
from inductor_frontend.functionalize.joint_passes import with_joint_passes
from inductor_frontend.functionalize.pieces import sized_writes
from inductor_frontend.functionalize.preparation import FunctionalModel, functional_model
from inductor_frontend.guards.checks import graph_checks, recorded_checks
from inductor_frontend.guards.trace_guards import guards_of
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.lowering import LoweringRequest, recorded
from inductor_frontend.session import capture_session
from inductor_frontend.torch_patches.ignored_options import set_in_process, warn_ignored
from inductor_frontend.translate.explained import explaining_extensions
from inductor_frontend.translate.finish import finish
from inductor_frontend.translate.program import BuildContext, GraphProgram, build_program
from wrapper_ir import ir
from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.random import random_devices
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.group_ranks import with_group_ranks
from wrapper_ir.errors import VerificationError
from wrapper_ir.plugins.eager import EagerRun
from wrapper_ir.verifier.signature import check_signature
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.rename_symbols import rename_symbols
from wrapper_ir_torch import own_ranks


def capture(
    model: torch.nn.Module | Callable[..., object] | ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    *,
    dynamic_shapes: object = None,  # the nested form of torch.export
    target: ir.Target | str | None = None,
    options: CaptureOptions | None = None,
    cpu_isas: Sequence[str] = (),
) -> Artifact:
    """Captures an inference program from a module, a function or an exported program.

    `args` and `kwargs` are example arguments; `dynamic_shapes` is as in `torch.export.export`. An exported
    program has both, so they are ignored. Weights become constants of the program without a copy: they share
    memory with the model until the artifact is saved. Only the weights of convolutions on a CPU are copied,
    channels-last. Buffers that the model writes become mutable constants.

    `cpu_isas`: instruction sets (`avx512`, `avx2`, `generic`); C++ kernels have a source for each. This
    machine need not support them. The model is captured once for each; if empty, for the instruction set of
    this machine.

    Raises CaptureError (FE1nn), HookError (FE2nn), ConversionError (FE3nn).
    """
    options = with_empty_sizes(options or CaptureOptions(), dynamic_shapes, args, kwargs or {})
    warn_ignored(set_in_process(options))
    refuse_mixed_up(model)

    def once() -> Artifact:
        return _capture(model, args, kwargs or {}, dynamic_shapes, target, options)

    return capture_for_each(cpu_isas, once) if cpu_isas else once()


def _capture(
    model: torch.nn.Module | Callable[..., object] | ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
    target: ir.Target | str | None,
    options: CaptureOptions,
) -> Artifact:
    require_types(model, args, kwargs)
    device = capture_target(target, options.gpu)
    if options.padded_matmuls and device.device is not None:
        raise CaptureError(
            "FE103",
            f"padded_matmuls is measured on a device, but a capture for {device.target} uses none",
            hint="leave the option out, or capture a model that is on the device, without a target",
        )
    with capture_session(options), recorded_checks() as checks, device.emulated(), _tracing(options):
        with blamed_on_sparse(args, kwargs):
            exported = export_model(
                model, args, kwargs, dynamic_shapes, device.device, empty_sizes=options.empty_sizes
            )
        state = state_names(exported.program)
        with any_size():
            functional = functional_model(exported)
            simplified = with_joint_passes(functional, packed_weights=options.packed_weights)
            checks += graph_checks(exported.program.graph_module)
            context = BuildContext(
                roles=simplified.roles,
                guards=guards_of(exported.program, checks, functional.windows),
                options=options,
                root=os.getcwd(),
                target=device.target,
            )
            with recorded(_request(simplified, options)) as recording:
                graph = build_program(recording, context)
    _check_events(graph)
    names = tuple(simplified.inputs[p].name for p in graph.positions)
    program = rename_symbols(graph.program, _free_names(graph.program, exported.symbols))
    analyses = _with_debug_pass(finish(program, options), options)
    program = analyses.program
    artifact = Artifact(
        program=program,
        signature=functional.signature(
            names, analyses.summary(program.main.name), analyses.get(random_devices)
        ),
        constants={name: tensor_data(name, t) for name, t in graph.constants.items() if not is_packed(t)},
        handles={name: tensor for name, tensor in graph.constants.items() if is_packed(tensor)},
        metadata=_metadata(state, program),
        extensions=MappingProxyType(explaining_extensions(program, graph.sources, options, graph.matmuls)),
    )
    artifact = with_group_ranks(artifact, own_ranks(groups_of(program, analyses)))
    if options.verify and (findings := check_signature(artifact, analyses)):
        raise VerificationError(findings)
    return artifact


def _with_debug_pass(analyses: Analyses, options: CaptureOptions) -> Analyses:
    if (debug_pass := options.debug_pass) is None:
        return analyses
    return analyses.after(
        run_pipeline(analyses.program, (debug_pass,), verify=options.verify, analyses=analyses)
    )


@contextmanager
def _tracing(options: CaptureOptions) -> Iterator[None]:
    """Traces operators as captures do, while the context is active."""
    layouts = layouts_of_empty_tensors() if options.empty_sizes else nullcontext()
    with sized_writes(), traced_combinations(), layouts:
        yield


def _metadata(state: StateNames, program: ir.Program) -> Mapping[str, str]:
    """Returns facts for tools, and for emitters that create modules."""
    producer = {"torch": torch.__version__}
    return MappingProxyType(
        {"producer": json.dumps(producer), "model_state": json.dumps(state.beside(program.constants))}
    )


def _free_names(program: ir.Program, names: Mapping[str, str]) -> dict[str, str]:
    """Returns the user's names of the program's symbols.

    If two symbols, which a check requires to be equal, have one name, only the first is renamed.
    """
    declared = [s.name for s in program.symbols]
    reserved = {name for name in declared if name not in names}
    renames: dict[str, str] = {}
    for name in declared:
        if name in names and names[name] not in reserved:
            renames[name] = names[name]
            reserved.add(names[name])
    return renames


def _request(model: FunctionalModel, options: CaptureOptions) -> LoweringRequest:
    return LoweringRequest(
        gm=model.gm,
        inputs=[n.meta["val"] for n in model.inputs],
        static_inputs=[i for i, n in enumerate(model.inputs) if n.name in model.roles],
        options=options,
    )


def _check_events(graph: GraphProgram) -> None:
    if graph.outer.awaited:
        raise HookError(
            "FE202",
            "the model waits for an event that it has not recorded",
            hint="record the event in the model, or wait for it before the call",
        )


class InductorFrontend:
    """The entry point `inductor` of `wrapper_ir.frontends`."""

    name = "inductor"

    def capture(
        self,
        model: torch.nn.Module | Callable[..., object] | ExportedProgram,
        args: tuple[object, ...],
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Artifact:
        """Captures a model; `options` are the keyword arguments of `capture`, such as `dynamic_shapes`."""
        return capture(model, args, kwargs, **options)

    def eager(
        self,
        model: torch.nn.Module | Callable[..., object] | ExportedProgram,
        args: tuple[object, ...],
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> EagerRun:
        """Returns the graph that `capture` lowers, ready to run with PyTorch's operators. Raises CaptureError
        (FE1nn)."""
        return eager_run(model, args, kwargs or {}, **options)


FRONTEND = InductorFrontend()
