"""From an artifact to a graph module."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.graph import CodeGen

from fx_converter import targets
from fx_converter._compat import caller
from fx_converter.compilers import find_compiler, refuse
from fx_converter.constants import load_constants
from fx_converter.effects import mark_operators
from fx_converter.forward import callee_codegen, codegen
from fx_converter.graph.check import check_arguments, check_layouts
from fx_converter.graph.placement import enter_device, exit_device
from fx_converter.graph.scope import Callee, FunctionScope, ProgramScope, identifier
from fx_converter.graph.table import CONVERTERS
from fx_converter.kernels import KernelTargets
from fx_converter.options import FxOptions
from fx_converter.origin import KEY, ConvertedModule, Origin, WatchedModule
from fx_converter.tuning import tuned
from wrapper_ir.analyses import Analyses
from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.artifact import Artifact
from wrapper_ir.collection import paused_collection
from wrapper_ir.operators import check_operators
from wrapper_ir.ops import Return
from wrapper_ir.passes.insert_checks import insert_checks
from wrapper_ir.program import Function
from wrapper_ir.runtime import refuse_unsupported
from wrapper_ir.verifier import require_signature

__all__ = ["convert", "make_main", "make_module"]


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
    options = options or FxOptions()
    given = Analyses.of(artifact.program, analyses)
    require_signature(artifact, given)
    refuse_unsupported(artifact.signature)
    check_operators(artifact.program, options.operators)
    if options.tune is not None:
        artifact = tuned(artifact, options.tune, options.find_runtime)
    given = given.after(artifact.program)
    artifact = replace(artifact, program=insert_checks(artifact.program, options.guarded, given))
    program = artifact.program
    given = given.after(program)
    constants = load_constants(artifact, given)
    kernels = KernelTargets(artifact, options)
    scope = ProgramScope(artifact, options, kernels, constants, caller(), given)
    mark_operators(scope.analyses)
    compiler = find_compiler(program.target.device.type, options.compilers)
    scope.lowerings = {
        **(compiler.lowerings if compiler is not None else {}),
        **dict.fromkeys(options.forbid, refuse),
    }
    graph, attributes = _convert_function(program.main, Callee(program.main.name), scope)
    origin = Origin(artifact=artifact, options=options, constants=constants, fakes=scope.fakes)
    return make_main(graph, attributes, "WrapperGraph", origin, kernels)


def make_main(
    graph: fx.Graph, attributes: dict[str, Any], name: str, origin: Origin, kernels: KernelTargets
) -> fx.GraphModule:
    """The main module, with its calling convention and its memory of where it comes from. Kernels are entered into torch's
    tables here, behind all that may fail."""
    signature = origin.artifact.signature if origin.options.convention == "model" else None
    kernels.settle()
    files = origin.artifact.mapped_files()
    kind = WatchedModule if files else ConvertedModule
    called = codegen(origin.options.kernel_calls, signature)
    module = make_module(graph, attributes, name, called, kind)
    if isinstance(module, WatchedModule):
        module.files = files
    module.meta[KEY] = origin
    return module


def _convert_function(
    function: Function, callee: Callee, program: ProgramScope
) -> tuple[fx.Graph, dict[str, Any]]:
    """A function's graph, and the attributes of its module by name."""
    scope = FunctionScope(program, callee, lambda called: _submodule(called, program))
    _placeholders(function, callee.captures, scope)
    entered = None
    is_main = function is program.program.main
    if is_main:
        check_arguments(scope)
        if groups := groups_of(program.program, program.analyses):
            scope.call(targets.check_groups, list(groups))
        entered = enter_device(scope)
    for position in range(len(function.body)):
        op = scope.enter(position)
        if isinstance(op, Return):
            exit_device(entered, scope)
        lowering = program.lowerings.get(type(op))
        if lowering is None or not lowering(op, scope):
            CONVERTERS[type(op)](op, scope)
        if is_main:
            check_layouts(position, scope)
    return scope.graph, scope.attributes


def _placeholders(function: Function, captures: tuple[str, ...], scope: FunctionScope) -> None:
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
    graph, attributes = _convert_function(program.analyses.functions[callee.function], callee, program)
    return make_module(graph, attributes, callee.function, callee_codegen(program.options.kernel_calls))


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
            root.register_buffer(attribute, held)
        else:
            setattr(root, attribute, held)
    return kind(root, graph, identifier(name))
