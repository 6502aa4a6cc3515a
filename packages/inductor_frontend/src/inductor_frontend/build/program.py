"""A whole program from one lowered graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import sympy
import torch
from torch._inductor import ir

from inductor_frontend.build.arguments import to_arg
from inductor_frontend.build.constant_table import ConstantRole, ConstantTable
from inductor_frontend.build.kernels import KernelTable
from inductor_frontend.build.scope import Scope, Shared
from inductor_frontend.build.translation import translate
from inductor_frontend.errors import ConversionError
from inductor_frontend.hooks import RecordingGraph
from inductor_frontend.options import CaptureOptions
from inductor_frontend.provenance import ProvenanceReader
from wrapper_ir.builder import ProgramBuilder
from wrapper_ir.expr import SymKind, ge, le
from wrapper_ir.ops import UNKNOWN, AssertExpr, Provenance
from wrapper_ir.program import Ownership, Program, Target
from wrapper_ir.types import ScalarType, TensorType
from wrapper_ir.values import Value

__all__ = ["GraphProgram", "build_program"]

_DEFAULT_LOWER = 2


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A program and what belongs to it: its constants' tensors by name, for each parameter of `main` the position of
    the graph input that it is, and for each result the parameter (by its position) whose storage it shares."""

    program: Program
    constants: Mapping[str, torch.Tensor]
    positions: tuple[int, ...]
    shared: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What a program is built with besides its graph.

    `roles` are the graph inputs that are constants, by name; `bounds` the inclusive ranges that the caller promised
    for symbols (None: open); `root` the folder that source locations are shown relative to.
    """

    roles: Mapping[str, ConstantRole] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    options: CaptureOptions = field(default_factory=CaptureOptions)
    root: str = ""


class _Builder:
    def __init__(self, graph: RecordingGraph, context: BuildContext) -> None:
        self.builder = ProgramBuilder(Target())
        self.graph = graph
        self.context = context
        self.roles = context.roles
        literals = {
            name: ConstantRole(name, tensor, name in graph.mutated_buffers)
            for name, tensor in graph.constants.items()
        }
        self.constants = ConstantTable(self.builder, {**self.roles, **literals})
        shared = Shared(
            program=self.builder,
            options=context.options,
            provenance=ProvenanceReader(context.root),
            constants=self.constants,
            translate=partial(translate, table=KernelTable()),
        )
        self.scope = Scope(graph, shared)

    def run(self) -> GraphProgram:
        """Translates everything, in upstream's order."""
        positions = self._inputs()
        self.scope.shared.translate(self.scope)
        self.scope.function.prov = UNKNOWN  # of the return
        results = tuple(to_arg(self.scope, x) for x in self.graph.graph_outputs)
        self.scope.function.ret(results)
        program = self.builder.finish()
        params = {p.value: i for i, p in enumerate(program.main.params)}
        roots = (self.scope.root(x) if isinstance(x, Value) else None for x in results)
        shared = tuple(None if r is None else params.get(r) for r in roots)
        return GraphProgram(program, self.constants.tensors, positions, shared)

    # --- inputs and constants

    def _inputs(self) -> tuple[int, ...]:
        graph, scope = self.graph, self.scope
        positions: list[int] = []
        params: dict[str, Value] = {}
        # Types of parameters mention symbols that the parameters themselves define.
        types = {n: self._param_type(n, x) for n, x in graph.graph_inputs.items() if n not in self.roles}
        for position, name in enumerate(graph.graph_input_names):
            if name in types:
                params[name] = scope.function.param(name, types[name], self._ownership(name))
                scope.bind(name, params[name])
                positions.append(position)
        scope.symbols.define_from_inputs(params)
        self._check_bounds()
        return tuple(positions)

    def _check_bounds(self) -> None:
        """Checks of promised ranges. Sizes 0 and 1 are let through where the promise is upstream's default of 2."""
        for name, (lower, upper) in self.context.bounds.items():
            symbol = self.scope.symbols.known(name)
            if symbol is None or not self.scope.options.scalar_asserts:
                continue
            expr = self.scope.expr(symbol)
            conditions = [ge(expr, lower)] if lower is not None and lower > _DEFAULT_LOWER else []
            conditions += [le(expr, upper)] if upper is not None else []
            for condition in conditions:
                message = f"input size out of range: expected {condition}"
                prov = Provenance(upstream=name)
                self.scope.function.append(AssertExpr(condition=condition, message=message, prov=prov))

    def _ownership(self, name: str) -> Ownership:
        donated = isinstance(self.graph.graph_inputs_original.get(name), ir.DonatedBuffer)
        return Ownership.OWNED if donated else Ownership.BORROWED

    def _param_type(self, name: str, node: object) -> TensorType | ScalarType:
        if isinstance(node, ir.TensorBox):
            return self.scope.result_type(self.graph.graph_inputs_original[name].get_layout())
        if isinstance(node, (sympy.logic.boolalg.BooleanAtom, bool)):
            return ScalarType(SymKind.BOOL)
        if isinstance(node, sympy.Expr):
            return ScalarType(SymKind.INT if node.is_integer else SymKind.FLOAT)
        raise ConversionError("FE302", f"input {name} is a {type(node).__name__}, which is not captured")


def build_program(graph: RecordingGraph, context: BuildContext) -> GraphProgram:
    """Builds the program of a graph whose wrapper was recorded. Runs inside upstream's graph context."""
    return _Builder(graph, context).run()
