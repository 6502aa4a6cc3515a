"""The function being built: maps Inductor's buffer names to values; views and sizes are converted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import sympy
import torch
from torch._inductor import ir

from inductor_frontend.convert import to_device, to_dtype, to_expr
from inductor_frontend.errors import ConversionError
from inductor_frontend.guards.check_table import CheckTable
from inductor_frontend.guards.function_guards import FunctionGuards
from inductor_frontend.guards.symbols import Symbols
from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.graph import RecordingGraph
from inductor_frontend.scope.constant_table import ConstantTable
from inductor_frontend.scope.in_flight import InFlightCollectives
from inductor_frontend.scope.provenance import ProvenanceReader
from inductor_frontend.scope.streams import Streams
from wrapper_ir.builder import FunctionBuilder, ProgramBuilder
from wrapper_ir.expr import Expr, Int, mul
from wrapper_ir.ir import TensorType, Type, Value, ViewMode, as_tensor, is_storage

TypeT = TypeVar("TypeT", bound=Type)

_ZERO = Int(0)


@dataclass(frozen=True, slots=True)
class Shared:
    """State shared by all functions of one program. `translate` appends the body of a scope's graph."""

    program: ProgramBuilder
    options: CaptureOptions
    provenance: ProvenanceReader
    constants: ConstantTable
    checks: CheckTable
    translate: Callable[[Scope], None]
    communication_buffers: Iterator[int] = field(default_factory=count)
    """Numbers of Inductor's communication buffers."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A function translated from a subgraph.

    `arguments` are the positions of the operands that it accepts, `params` their types, and `writes` the
    positions of parameters that it writes.
    """

    name: str
    arguments: tuple[int, ...]
    params: tuple[Type, ...]
    writes: frozenset[int]


class Scope:
    """State of one function's translation. `outer` is the scope of its only caller; None for `main`."""

    def __init__(
        self, graph: RecordingGraph, shared: Shared, name: str = "main", outer: Scope | None = None
    ) -> None:
        self.graph = graph
        self.shared = shared
        self.outer = outer
        self.program = shared.program
        prefix = "" if outer is None else f"{graph.name}_"
        self.function: FunctionBuilder = shared.program.function(name, prefix)
        self.options = shared.options
        self.provenance = shared.provenance.within(graph.module.graph)
        self.constants = shared.constants
        self.callees: dict[str, Callee] = {}
        """Functions that this one calls in several places, by Inductor's name of the subgraph."""
        callers = None if outer is None else outer.symbols
        self.symbols: Symbols = Symbols(graph, self.function, callers)
        self.guards = FunctionGuards(
            graph=graph,
            function=self.function,
            symbols=self.symbols,
            model_checks=shared.checks,
            location=self.provenance.location,
            options=shared.options,
        )
        self.in_flight = InFlightCollectives()
        self.streams = Streams(self.function, graph.device_idxs, nested=outer is not None)
        self._values: dict[str, Value] = {}
        self._views: dict[tuple[Value, TensorType, Expr], Value] = {}
        self._roots: dict[Value, Value] = {}
        self.undefined: set[str] = set()
        """Buffers of Inductor's that hold nothing at run time."""

    # --- names

    def bind(self, name: str, value: Value[TypeT]) -> Value[TypeT]:
        """Binds Inductor's `name` to `value` from now on."""
        self._values[name] = value
        return value

    def find(self, name: str) -> Value | None:
        """Returns the value of an Inductor name, resolving in-place mutation; None if the name is not
        bound."""
        value = self._values.get(name) or self.constants.find(name)
        if value is None:
            real = self.graph.scheduler.mutation_real_name.get(name)
            value = None if real is None or real == name else self.find(real)
        return value

    def value(self, name: str) -> Value:
        """Returns the value of an Inductor name; raises ConversionError FE307 if it is not bound."""
        value = self.find(name)
        if value is None and name in self.undefined:
            raise ConversionError(
                "FE307",
                f"buffer {name} is used, but the operator leaves this result undefined",
                hint="do not use the result: it is None in eager mode",
            )
        if value is None:
            raise ConversionError("FE307", f"buffer {name} is used, but no op has defined it")
        return value

    # --- types

    def expr(self, value: object) -> Expr:
        """Converts a size, stride or offset. Its symbols are declared and defined first if necessary."""
        return self.symbols.expr(value)

    def tensor_type(
        self,
        dtype: torch.dtype,
        sizes: Sequence[int | sympy.Expr],
        strides: Sequence[int | sympy.Expr],
        device: torch.device | None,
    ) -> TensorType:
        """Returns an IR tensor type."""
        size, stride = (tuple(self.expr(x) for x in xs) for xs in (sizes, strides))
        return TensorType(to_dtype(dtype), size, stride, to_device(device))

    def layout_type(self, layout: ir.Layout) -> TensorType:
        """Returns the tensor type of an Inductor layout."""
        return self.tensor_type(layout.dtype, layout.size, layout.stride, layout.device)

    def result_type(self, layout: ir.Layout) -> TensorType:
        """Returns the type of a parameter or of a call's result. Its symbols may be defined afterwards, from
        the value itself."""
        sizes, strides = (
            tuple(to_expr(self.symbols.canonical(x)) for x in xs) for xs in (layout.size, layout.stride)
        )
        return TensorType(to_dtype(layout.dtype), sizes, strides, to_device(layout.device))

    # --- references

    def reference(self, node: ir.IRNode) -> Value:
        """Returns the value of an Inductor node, as a view if the node is one."""
        match node:
            case ir.MutableBox():
                return self.reference(node.data)
            case ir.ReinterpretView():
                return self.view(node)
            case ir.Buffer():
                return self.value(node.get_name())
            case _:
                raise ConversionError(
                    "FE307", f"a node of class {type(node).__name__} is not a tensor reference"
                )

    def view(self, node: ir.ReinterpretView) -> Value:
        """Returns the tensor of a view, which is created once for each (source, layout)."""
        base = self.value(node.data.get_name())
        type = self.layout_type(node.layout)
        if not isinstance(base.type, TensorType):
            raise ConversionError("FE307", f"a view of {base.name}, which is not a tensor")
        if base.type.dtype.itemsize != type.dtype.itemsize:
            raise ConversionError(
                "FE307", f"a view of {base.name} changes the element size: {base.type.dtype} to {type.dtype}"
            )
        offset = mul(self.expr(node.layout.offset), Int(base.type.dtype.itemsize))
        return self.view_as(base, type, offset)

    def view_as(self, base: Value, type: TensorType, offset: Expr) -> Value:
        """Returns `base` itself if its type is `type`, else a View of it; `offset` is in bytes."""
        if base.type == type and offset is _ZERO:
            return base
        key = (base, type, offset)
        view = self._views.get(key)
        if view is None:
            view = self.make_view(f"{base.name}.v", base, type, offset)
            self._views[key] = view
        return view

    def make_view(
        self,
        name: str,
        source: Value,
        type: TensorType,
        offset: Expr = _ZERO,
        mode: ViewMode = ViewMode.ALIAS,
    ) -> Value[TensorType]:
        """Emits a View."""
        memory = source if is_storage(source) else as_tensor(source)
        result = self.function.view(name, memory, type, offset, mode)
        self._roots[result] = self.root(source)
        return result

    def own_view(self, view: Value) -> Value:
        """Returns a separate tensor in place of `view` if `view_as` created it; any other value is returned
        unchanged."""
        for (base, type, offset), existing in self._views.items():
            if existing is view:
                return self.make_view(f"{base.name}.v", base, type, offset)
        return view

    def same_storage(self, result: Value, source: Value) -> None:
        """Declares that `result` is in the storage of `source`."""
        self._roots[result] = self.root(source)

    def root(self, value: Value) -> Value:
        """Returns the storage, parameter, constant or call result that a tensor is a view of."""
        return self._roots.get(value, value)
