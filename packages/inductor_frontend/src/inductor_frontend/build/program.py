"""A whole program from one lowered graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import sympy
import torch
from torch._inductor import ir

from inductor_frontend.build.arguments import to_arg
from inductor_frontend.build.constant_table import ConstantRole, ConstantTable
from inductor_frontend.build.kernels import Kernels
from inductor_frontend.build.memory import alias, allocate, reuse
from inductor_frontend.build.nodes import call_node
from inductor_frontend.build.scope import Scope
from inductor_frontend.convert import to_device, to_dtype, to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.hooks import Event, RecordingGraph
from inductor_frontend.hooks.events import (
    Alias,
    AlignInput,
    Allocate,
    CallKernel,
    CallNode,
    CheckInput,
    DefineKernel,
    DefineSize,
    Reuse,
)
from inductor_frontend.options import CaptureOptions
from inductor_frontend.provenance import ProvenanceReader
from wrapper_ir.builder import ProgramBuilder
from wrapper_ir.expr import SymKind
from wrapper_ir.ops import UNKNOWN, Arg, AssertLayout, EnsureAligned
from wrapper_ir.program import Ownership, Program, Target
from wrapper_ir.types import ScalarType, TensorType
from wrapper_ir.values import Value

__all__ = ["GraphProgram", "build_program"]

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A program and what belongs to it: its constants' tensors by name, and for each parameter of `main` the
    position of the graph input that it is."""

    program: Program
    constants: Mapping[str, torch.Tensor]
    positions: tuple[int, ...]


class _Builder:
    def __init__(
        self, graph: RecordingGraph, roles: Mapping[str, ConstantRole], options: CaptureOptions, root: str
    ) -> None:
        self.builder = ProgramBuilder(Target())
        self.graph = graph
        self.roles = roles
        literals = {
            name: ConstantRole(name, tensor, name in graph.mutated_buffers)
            for name, tensor in graph.constants.items()
        }
        self.constants = ConstantTable(self.builder, {**roles, **literals})
        self.scope = Scope(graph, self.builder, options, ProvenanceReader(root), self.constants)
        self.kernels = Kernels(self.scope)

    def run(self) -> GraphProgram:
        """Translates everything, in upstream's order."""
        positions = self._inputs()
        for event in self.graph.recording.events:
            self._event(event)
        self.scope.function.prov = UNKNOWN
        self.scope.function.ret(self._output(x) for x in self.graph.graph_outputs)
        return GraphProgram(self.builder.finish(), self.constants.tensors, positions)

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
        return tuple(positions)

    def _ownership(self, name: str) -> Ownership:
        donated = isinstance(self.graph.graph_inputs_original.get(name), ir.DonatedBuffer)
        return Ownership.OWNED if donated else Ownership.BORROWED

    def _param_type(self, name: str, node: object) -> TensorType | ScalarType:
        if isinstance(node, ir.TensorBox):
            layout = self.graph.graph_inputs_original[name].get_layout()
            # Symbols of a parameter's type are defined after the parameter, from it or another one.
            sizes, strides = (tuple(to_expr(x) for x in xs) for xs in (layout.size, layout.stride))
            return TensorType(to_dtype(layout.dtype), sizes, strides, to_device(layout.device))
        if isinstance(node, (sympy.logic.boolalg.Boolean, bool)):
            return ScalarType(SymKind.BOOL)
        if isinstance(node, sympy.Expr):
            return ScalarType(SymKind.INT if node.is_integer else SymKind.FLOAT)
        raise ConversionError("FE302", f"input {name} is a {type(node).__name__}, which is not captured")

    # --- events

    def _event(self, event: Event) -> None:
        match event:
            case Allocate():
                allocate(self.scope, event)
            case Reuse():
                reuse(self.scope, event)
            case Alias():
                alias(self.scope, event)
            case DefineKernel():
                self.kernels.define(event)
            case CallKernel():
                self.kernels.call(event)
            case CallNode():
                call_node(self.scope, event)
            case DefineSize():
                self.scope.symbols.define(event.symbol, self.scope.expr(event.expr))
            case CheckInput():
                self._check_input(event)
            case AlignInput():
                self._align_input(event)
            case _:
                assert_never(event)

    def _check_input(self, event: CheckInput) -> None:
        """Constants are what capture saw; only parameters are checked."""
        if not self.scope.options.layout_asserts or event.name in self.roles:
            return
        value = self.scope.value(event.name)
        if isinstance(value.type, TensorType) and self.scope.expr(0) not in value.type.sizes:
            check = AssertLayout(
                tensor=value, sizes=value.type.sizes, strides=value.type.strides, message="input"
            )
            self.scope.function.append(check)

    def _align_input(self, event: AlignInput) -> None:
        source = self.scope.value(event.name)
        result = self.scope.function.value(f"{event.name}.a", source.type)
        self.scope.function.append(EnsureAligned(source=source, result=result, alignment=_ALIGNMENT))
        self.scope.bind(event.name, result)

    # --- outputs

    def _output(self, node: object) -> Arg:
        return to_arg(self.scope, node)


def build_program(
    graph: RecordingGraph, roles: Mapping[str, ConstantRole], options: CaptureOptions, root: str
) -> GraphProgram:
    """Builds the program of a graph whose wrapper was recorded. `roles` names the graph inputs that are constants;
    `root` is the folder that source locations are shown relative to. Runs inside upstream's graph context."""
    return _Builder(graph, roles, options, root).run()
