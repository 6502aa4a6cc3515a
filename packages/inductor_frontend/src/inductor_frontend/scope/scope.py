"""The function being built: Inductor's buffer names to values, views made once, sizes converted once."""

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
    """What all functions of one program have in common. `translate` appends the body of a scope's graph."""

    program: ProgramBuilder
    options: CaptureOptions
    provenance: ProvenanceReader
    constants: ConstantTable
    checks: CheckTable
    translate: Callable[[Scope], None]
    communication_buffers: Iterator[int] = field(default_factory=count)
    """Numbers for Inductor's communication buffers."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A function made from a subgraph: `passed` are the operands that it takes, by position, `params` their types,
    and `written` the positions of parameters that it writes to."""

    name: str
    passed: tuple[int, ...]
    params: tuple[Type, ...]
    written: frozenset[int]


class Scope:
    """State of one function's translation. `outer` is the scope of the only function that calls it; `main` has
    none."""

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
        self.symbols: Symbols = Symbols(graph, self.function, callers, empty_sizes=shared.options.empty_sizes)
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
        """From now on Inductor's `name` means `value`."""
        self._values[name] = value
        return value

    def find(self, name: str) -> Value | None:
        """The value of an Inductor name, looking through in-place mutation; None where there is none."""
        found = self._values.get(name) or self.constants.find(name)
        if found is None:
            real = self.graph.scheduler.mutation_real_name.get(name)
            found = None if real is None or real == name else self.find(real)
        return found

    def value(self, name: str) -> Value:
        """As `find`; raises ConversionError FE307."""
        found = self.find(name)
        if found is None and name in self.undefined:
            raise ConversionError(
                "FE307",
                f"buffer {name} is used, but the operator leaves this result undefined",
                hint="do not use the result: it is None in eager mode",
            )
        if found is None:
            raise ConversionError("FE307", f"buffer {name} is used, but no op has defined it")
        return found

    # --- types

    def expr(self, value: object) -> Expr:
        """A size, stride or offset; its symbols are declared and defined first if need be."""
        return self.symbols.expr(value)

    def tensor_type(
        self,
        dtype: torch.dtype,
        sizes: Sequence[int | sympy.Expr],
        strides: Sequence[int | sympy.Expr],
        device: torch.device | None,
    ) -> TensorType:
        """An IR tensor type."""
        size, stride = (tuple(self.expr(x) for x in xs) for xs in (sizes, strides))
        return TensorType(to_dtype(dtype), size, stride, to_device(device))

    def layout_type(self, layout: ir.Layout) -> TensorType:
        """The tensor type of an Inductor layout."""
        return self.tensor_type(layout.dtype, layout.size, layout.stride, layout.device)

    def result_type(self, layout: ir.Layout) -> TensorType:
        """The type of a parameter or of a call's result: its symbols may be defined afterwards, from itself."""
        sizes, strides = (
            tuple(to_expr(self.symbols.canonical(x)) for x in xs) for xs in (layout.size, layout.stride)
        )
        return TensorType(to_dtype(layout.dtype), sizes, strides, to_device(layout.device))

    # --- references

    def reference(self, node: ir.IRNode) -> Value:
        """The value that an Inductor node stands for, viewed as the node says."""
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
        """The tensor that a view stands for; made once for each (source, layout)."""
        base = self.value(node.data.get_name())
        wanted = self.layout_type(node.layout)
        if not isinstance(base.type, TensorType):
            raise ConversionError("FE307", f"a view of {base.name}, which is not a tensor")
        if base.type.dtype.itemsize != wanted.dtype.itemsize:
            raise ConversionError(
                "FE307",
                f"a view of {base.name} changes the element size: {base.type.dtype} to {wanted.dtype}",
            )
        offset = mul(self.expr(node.layout.offset), Int(base.type.dtype.itemsize))
        return self.view_as(base, wanted, offset)

    def view_as(self, base: Value, wanted: TensorType, offset: Expr) -> Value:
        """`base` itself where the layouts agree, else a View of it; `offset` in bytes."""
        if base.type == wanted and offset is _ZERO:
            return base
        key = (base, wanted, offset)
        found = self._views.get(key)
        if found is None:
            found = self.make_view(f"{base.name}.v", base, wanted, offset)
            self._views[key] = found
        return found

    def make_view(
        self,
        name: str,
        source: Value,
        type: TensorType,
        offset: Expr = _ZERO,
        mode: ViewMode = ViewMode.ALIAS,
    ) -> Value[TensorType]:
        """A View op."""
        held = source if is_storage(source) else as_tensor(source)
        result = self.function.view(name, held, type, offset, mode)
        self._roots[result] = self.root(source)
        return result

    def own_view(self, view: Value) -> Value:
        """A tensor of its own in the place of `view`, which `view_as` made; anything else as it is."""
        for (base, wanted, offset), found in self._views.items():
            if found is view:
                return self.make_view(f"{base.name}.v", base, wanted, offset)
        return view

    def same_storage(self, result: Value, source: Value) -> None:
        """`result`, which an op made, lives where `source` does."""
        self._roots[result] = self.root(source)

    def root(self, value: Value) -> Value:
        """The storage, parameter, constant or call result that a tensor is a view of."""
        return self._roots.get(value, value)
