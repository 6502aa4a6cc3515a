"""From an artifact to a graph module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.graph import CodeGen

from fx_converter.compilers import Lowering, find_compiler, refuse
from fx_converter.constants import load_constants
from fx_converter.effects import mark_operators
from fx_converter.forward import callee_codegen, codegen
from fx_converter.graph.checks import check_layout, is_argument_check
from fx_converter.graph.placement import exit_device
from fx_converter.graph.scope import Callee, FunctionScope, ProgramScope, identifier
from fx_converter.graph.symbolic import read_atom
from fx_converter.graph.table import CONVERTERS
from fx_converter.kernels import KernelTargets, UnloadedKernels
from fx_converter.options import FxOptions
from fx_converter.origin import KEY, ConvertedModule, Origin, WatchedModule
from fx_converter.state import named_state, place
from fx_converter.tuning import tuned
from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.emitted import OpOrigins
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.verifier import require_signature
from wrapper_ir.verifier.allowed_operators import check_operators
from wrapper_ir_lowering import LoweringOptions, lower
from wrapper_ir_lowering.writers import write_step
from wrapper_ir_runtime import refuse_unsupported
from wrapper_ir_torch import caller


@paused_collection()
def convert(
    artifact: Artifact, options: FxOptions | None = None, analyses: Analyses | None = None
) -> fx.GraphModule:
    """The artifact's program as a graph module: every op is a node or several, submodules are the functions that control
    flow calls, constants are buffers.

    The program must be valid (`wrapper_ir.verify`). Raises VerificationError (WIR1nn) for a signature that does not fit it,
    ConvertError (FX10n), NotSupportedError (WIR91n), PluginError
    for kernels without a runtime, and what kernel runtimes raise; nothing is left behind then.
    """
    return convert_as(artifact, options or FxOptions(), analyses)


def convert_as(
    artifact: Artifact,
    options: FxOptions,
    analyses: Analyses | None = None,
    *,
    original: ir.Program | None = None,
    is_run: bool = True,
) -> fx.GraphModule:
    """`convert`. `original` is the program whose ops nodes name as their origin, where the artifact's was made from it. A graph
    that is not run is for readers: its kernels are not loaded (those of the form "hop" are, which are registered), nothing is
    measured, and all constants are on the CPU."""
    if not is_run:
        options = replace(options, tune=None)
    given = Analyses.of(artifact.program, analyses)
    require_signature(artifact, given)
    refuse_unsupported(artifact.signature)
    check_operators(artifact.program, options.operators)
    if options.tune is not None:
        artifact = tuned(artifact, options.tune, options.find_runtime)
    compiler = find_compiler(artifact.program.target.device.type, options.compilers)
    lowerings = {
        **(compiler.lowerings if compiler is not None else {}),
        **dict.fromkeys(options.forbid, refuse),
    }
    plan = lower(artifact, _lowering(options, lowerings), given.after(artifact.program))
    artifact = plan.artifact
    constants = load_constants(artifact, plan.analyses, None if is_run else torch.device("cpu"))
    loads = is_run or options.kernel_calls == "hop"
    find_runtime = options.find_runtime if loads else UnloadedKernels
    kernels = KernelTargets(artifact, options.kernel_calls, find_runtime)
    origins = OpOrigins(original or artifact.program, plan.program)
    scope = ProgramScope(plan, kernels, constants, caller(), options.kernel_calls, options.fake_mode, origins)
    mark_operators(scope.analyses)
    scope.lowerings = lowerings
    graph, attributes = _convert_function(Callee(plan.main.name), scope)
    origin = Origin(artifact=artifact, options=options, constants=constants, fakes=scope.fakes)
    return make_main(graph, attributes, "WrapperGraph", origin, kernels)


def _lowering(options: FxOptions, lowerings: Mapping[type[ir.OpBase], Lowering]) -> LoweringOptions:
    """Windows of constants stay where they are: passes may change what they are of. A view is apart from its storage where a
    compiler converts the one or the other itself."""
    return LoweringOptions(
        assertions=options.assertions,
        check_results=options.check_results,
        fuse_views=lowerings.keys().isdisjoint((ir.AllocStorage, ir.View, ir.Free)),
        hoist_windows=False,
        join_waits=True,
        guarded=options.guarded,
        operators=options.operators,
    )


def make_main(
    graph: fx.Graph, attributes: dict[str, Any], name: str, origin: Origin, kernels: KernelTargets
) -> fx.GraphModule:
    """The main module, with its calling convention and its memory of where it comes from. Kernels are entered into torch's
    tables here, after every step that can fail."""
    signature = origin.artifact.signature if origin.options.convention == "model" else None
    kernels.settle()
    files = origin.artifact.mapped_files()
    kind = WatchedModule if files else ConvertedModule
    called = codegen(origin.options.kernel_calls, signature)
    module = make_module(graph, attributes, name, called, kind)
    if isinstance(module, WatchedModule):
        module.files = files
    module.meta[KEY] = origin
    module._model_state = named_state(module, origin.artifact, origin.constants)
    return module


def _convert_function(callee: Callee, program: ProgramScope) -> tuple[fx.Graph, dict[str, Any]]:
    """A function's graph, and the attributes of its module by name."""
    scope = FunctionScope(program, callee, lambda called: _submodule(called, program), read_atom)
    function = scope.plan.function
    _placeholders(function, callee.captures, scope)
    convert_op(-1, scope)
    for position in range(len(function.body)):
        op = scope.enter(position)
        if isinstance(op, ir.Return):
            exit_device(scope)
        lowering = program.lowerings.get(type(op))
        if lowering is None or not lowering(op, scope):
            convert_op(position, scope)
        for step in filter(is_argument_check, scope.steps_at(position)):
            check_layout(step, scope)
    return scope.graph, scope.attributes


def convert_op(position: int, scope: FunctionScope) -> None:
    """The nodes of the op at a position of the function that is converted, as they are without a compiler's lowerings; at -1
    those before the first op."""
    try:
        for step in scope.steps_at(position):
            if not is_argument_check(step):
                write_step(step, scope, CONVERTERS)
    except (AssertionError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # of torch: a guard on a size that only a run tells, an operator over fake tensors
        if hasattr(error, "code"):  # ours, of any package
            raise
        raise scope.failed(error) from error


def _placeholders(function: ir.Function, captures: tuple[str, ...], scope: FunctionScope) -> None:
    for param in function.params:
        value = param.value
        made = _placeholder(value.name, scope.fake(value), scope)
        made.meta["value"] = value.name
        scope.nodes[value] = made
    for symbol in captures:
        made = _placeholder(symbol, scope.program.fakes.symbol(symbol), scope)
        made.meta["symbol"] = symbol
        scope.symbols[symbol] = made


def _placeholder(name: str, val: Any, scope: FunctionScope) -> fx.Node:
    """An input; its target is its name, which Python allows."""
    made = scope.node("placeholder", "input", (), {}, name, val)
    made.target = made.name
    return made


def _submodule(callee: Callee, program: ProgramScope) -> fx.GraphModule:
    """The module of a called function."""
    graph, attributes = _convert_function(callee, program)
    return make_module(graph, attributes, callee.function, callee_codegen(program.kernel_calls))


def make_module(
    graph: fx.Graph,
    attributes: dict[str, Any],
    name: str,
    called: CodeGen,
    kind: type[ConvertedModule] = ConvertedModule,
) -> ConvertedModule:
    """A module over a graph, which is called as `called` says; tensors become buffers, modules submodules."""
    graph.set_codegen(called)
    root = torch.nn.Module()
    for attribute, held in attributes.items():
        if isinstance(held, torch.nn.Module):
            root.add_module(attribute, held)
        elif isinstance(held, Tensor):
            place(root, attribute, held)
        else:
            setattr(root, attribute, held)
    return kind(root, graph, identifier(name))
