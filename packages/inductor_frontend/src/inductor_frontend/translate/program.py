"""Builds a program from one lowered graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch._inductor import ir

from inductor_frontend.constants import ConstantRole
from inductor_frontend.devices.packages import device_package
from inductor_frontend.guards.check_table import CheckTable
from inductor_frontend.guards.input_checks import (
    check_all_layouts,
    check_inputs,
    check_left_over,
    check_no_negative,
)
from inductor_frontend.guards.input_symbols import define_from, facts_of
from inductor_frontend.guards.trace_guards import TraceGuards
from inductor_frontend.kernels.launches import KernelTable
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.record.split_rule import MatmulDecision
from inductor_frontend.scope.arguments import to_arg
from inductor_frontend.scope.constant_table import ConstantTable, literals
from inductor_frontend.scope.outer_streams import OuterStreams
from inductor_frontend.scope.parameters import param_type
from inductor_frontend.scope.provenance import ProvenanceReader
from inductor_frontend.scope.scope import Scope, Shared
from inductor_frontend.translate.callees import outside_of_symmetric
from inductor_frontend.translate.translation import translate
from wrapper_ir.builder import ProgramBuilder
from wrapper_ir.ir import UNKNOWN, Arg, Device, Ownership, Program, Target, Value


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A program and its related data.

    `constants` are tensors by `Constant.data_name`. `positions` has, for each parameter of `main`, the
    position of its graph input. `shared` has, for each result, the position of the parameter whose storage it
    shares. `outer` describes the caller's streams, `sources` the text of source lines by `file:line`, and
    `matmuls` the decisions about split matmuls.
    """

    program: Program
    constants: Mapping[str, torch.Tensor]
    positions: tuple[int, ...]
    shared: tuple[int | None, ...]
    outer: OuterStreams
    sources: Mapping[str, str]
    matmuls: tuple[MatmulDecision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """Inputs of the translation besides the graph.

    `roles` are the graph inputs that are constants, by name. `guards` are conditions that the trace depends
    on. Source locations are relative to the folder `root`.
    """

    roles: Mapping[str, ConstantRole] = field(default_factory=dict)
    guards: TraceGuards = field(default_factory=TraceGuards)
    options: CaptureOptions = field(default_factory=CaptureOptions)
    root: str = ""
    target: Target = field(default_factory=Target)


def target_of(graph: RecordingGraph, requested: Target) -> Target:
    """Returns the requested target; if that is the default, the device of this machine that the graph runs
    on."""
    if requested != Target() or graph.device_type == "cpu":
        return requested
    index = min(graph.device_idxs, default=0)
    if graph.device_type != "cuda":
        package = device_package(graph.device_type)
        return Target(device=Device(graph.device_type, index), arch="" if package is None else package.here())
    major, minor = torch.cuda.get_device_capability(index)
    return Target(device=Device("cuda", index), arch=f"sm_{major}{minor}")


class _Builder:
    def __init__(self, graph: RecordingGraph, context: BuildContext) -> None:
        self.builder = ProgramBuilder(target_of(graph, context.target))
        self.graph = graph
        self.context = context
        self.roles = context.roles
        self.constants = ConstantTable(self.builder, {**self.roles, **literals(graph)})
        shared = Shared(
            program=self.builder,
            options=context.options,
            provenance=ProvenanceReader(context.root),
            constants=self.constants,
            checks=CheckTable(context.guards.checks),
            translate=partial(translate, table=KernelTable()),
        )
        self.scope = Scope(graph, shared)
        self.params: dict[str, Value] = {}

    def run(self) -> GraphProgram:
        """Translates inputs, events and results, in Inductor's order."""
        positions = self._inputs()
        begin = len(self.scope.function.ops)
        self.scope.shared.translate(self.scope)
        if self.context.guards.promised is not None:
            check_all_layouts(self.scope.guards, self.params.values())
            if self.context.options.empty_sizes:
                check_no_negative(self.scope.guards, begin)
        self.scope.function.prov = UNKNOWN  # of the return
        results = self._results()
        self.scope.function.ret(results)
        program = self.constants.finish(self.builder.finish())
        params = {p.value: i for i, p in enumerate(program.main.params)}
        roots = (self.scope.root(x) if isinstance(x, Value) else None for x in results)
        shared = tuple(None if r is None else params.get(r) for r in roots)
        return GraphProgram(
            program,
            self.constants.tensors,
            positions,
            shared,
            self.scope.streams.outer,
            self.scope.provenance.texts,
            self.graph.matmul_decisions,
        )

    def _results(self) -> tuple[Arg, ...]:
        """Returns the graph's results. Two equal views are separate tensors for the caller, as in Inductor's
        own code."""
        results: list[Arg] = []
        views: set[Value] = set()
        for output in self.graph.graph_outputs:
            result = to_arg(self.scope, output)
            if isinstance(result, Value):
                result = outside_of_symmetric(self.scope, result)
                result = self.scope.own_view(result) if result in views else result
                views.add(result)
            results.append(result)
        return tuple(results)

    # --- inputs and constants

    def _inputs(self) -> tuple[int, ...]:
        graph, scope = self.graph, self.scope
        positions: list[int] = []
        params = self.params
        # Types of parameters use symbols that the parameters themselves define.
        types = {n: param_type(scope, n) for n in graph.graph_inputs if n not in self.roles}
        for position, name in enumerate(graph.graph_input_names):
            if name in types:
                params[name] = scope.function.param(name, types[name], self._ownership(name))
                scope.bind(name, params[name])
                positions.append(position)
        facts = facts_of(scope.guards, params)
        define_from(scope.guards, facts)
        if self.context.guards.promised is not None:
            check_inputs(scope.guards, facts, params, self.context.guards)
        check_left_over(scope.guards)
        return tuple(positions)

    def _ownership(self, name: str) -> Ownership:
        donated = isinstance(self.graph.graph_inputs_original.get(name), ir.DonatedBuffer)
        return Ownership.OWNED if donated else Ownership.BORROWED


def build_program(graph: RecordingGraph, context: BuildContext) -> GraphProgram:
    """Builds the program of a graph whose wrapper was recorded. Must run inside Inductor's context of the
    graph."""
    return _Builder(graph, context).run()
