"""Conversion of an artifact to a graph module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    """Converts the artifact's program to a graph module: every op becomes one or more nodes, submodules are
    the functions that control flow calls, constants are buffers.

    The program must be valid (`wrapper_ir.verify`). Raises VerificationError (WIR1nn) for a signature that
    does not match it, ConvertError (FX10n), NotSupportedError (WIR91n), PluginError for kernels without a
    runtime, and the errors of kernel runtimes. A failed conversion registers nothing.
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
    """See `convert`. `original` is the program whose ops nodes name as their origin, if the artifact's
    program was derived from it. A graph with `is_run=False` is only for reading: its kernels are not loaded
    (except those of the form "hop", which are registered), nothing is measured, and all constants are on the
    CPU."""
    if not is_run:
        options = replace(options, tune=None)
    memo = Analyses.of(artifact.program, analyses)
    require_signature(artifact, memo)
    refuse_unsupported(artifact.signature)
    check_operators(artifact.program, options.operators)
    if options.tune is not None:
        artifact = tuned(artifact, options.tune, options.find_runtime)
    compiler = find_compiler(artifact.program.target.device.type, options.compilers)
    lowerings = {
        **(compiler.lowerings if compiler is not None else {}),
        **dict.fromkeys(options.forbid, refuse),
    }
    plan = lower(artifact, _lowering(options, lowerings), memo.after(artifact.program))
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
    """Returns the options of lowering. Windows of constants are not hoisted, because passes may replace the
    constants. Views are not fused if a compiler converts views or storages itself."""
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
    graph: fx.Graph, attributes: dict[str, object], name: str, origin: Origin, kernels: KernelTargets
) -> fx.GraphModule:
    """Creates the main module, with its calling convention and its origin. Kernels are registered with torch
    here, after every step that can fail."""
    signature = origin.artifact.signature if origin.options.convention == "model" else None
    kernels.settle()
    files = origin.artifact.mapped_files()
    kind = WatchedModule if files else ConvertedModule
    generator = codegen(origin.options.kernel_calls, signature)
    module = make_module(graph, attributes, name, generator, kind)
    if isinstance(module, WatchedModule):
        module.files = files
    module.meta[KEY] = origin
    module._model_state = named_state(module, origin.artifact, origin.constants)
    return module


def _convert_function(callee: Callee, program: ProgramScope) -> tuple[fx.Graph, dict[str, object]]:
    """Returns a function's graph, and the attributes of its module by name."""
    scope = FunctionScope(program, callee, lambda function: _submodule(function, program), read_atom)
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
    """Creates the nodes of the op at a position of the function that is converted, without a compiler's
    lowerings; -1 is the position before the first op."""
    try:
        for step in scope.steps_at(position):
            if not is_argument_check(step):
                write_step(step, scope, CONVERTERS)
    except (AssertionError, MemoryError):
        raise
    except Exception as error:  # torch's: a guard on an unbacked size, an operator over fake tensors
        if hasattr(error, "code"):  # a coded error of any package
            raise
        raise scope.failed(error) from error


def _placeholders(function: ir.Function, captures: tuple[str, ...], scope: FunctionScope) -> None:
    for param in function.params:
        value = param.value
        node = _placeholder(value.name, scope.fake(value), scope)
        node.meta["value"] = value.name
        scope.nodes[value] = node
    for symbol in captures:
        node = _placeholder(symbol, scope.program.fakes.symbol(symbol), scope)
        node.meta["symbol"] = symbol
        scope.symbols[symbol] = node


def _placeholder(name: str, val: object, scope: FunctionScope) -> fx.Node:
    """Creates the node of an input. Its target is its name, which is a Python identifier."""
    node = scope.node("placeholder", "input", (), {}, name, val)
    node.target = node.name
    return node


def _submodule(callee: Callee, program: ProgramScope) -> fx.GraphModule:
    """Creates the module of a called function."""
    graph, attributes = _convert_function(callee, program)
    return make_module(graph, attributes, callee.function, callee_codegen(program.kernel_calls))


def make_module(
    graph: fx.Graph,
    attributes: dict[str, object],
    name: str,
    generator: CodeGen,
    kind: type[ConvertedModule] = ConvertedModule,
) -> ConvertedModule:
    """Creates a module over a graph with this code generator. Tensors become buffers, modules submodules."""
    graph.set_codegen(generator)
    root = torch.nn.Module()
    for attribute, value in attributes.items():
        if isinstance(value, torch.nn.Module):
            root.add_module(attribute, value)
        elif isinstance(value, Tensor):
            place(root, attribute, value)
        else:
            setattr(root, attribute, value)
    return kind(root, graph, identifier(name))
