"""The events of one graph, translated into the body of one function."""

from __future__ import annotations

from typing import assert_never

from inductor_frontend.kernels.cpp_kernels import Kernels, KernelTable
from inductor_frontend.kernels.partial import finish_reduction
from inductor_frontend.kernels.triton_kernels import TritonKernels
from inductor_frontend.operators.collectives import wait_for_rest
from inductor_frontend.record.events import (
    Alias,
    AlignInput,
    Allocate,
    AllocateWorkspace,
    CallKernel,
    CallNode,
    CallTriton,
    CheckInput,
    DefineKernel,
    DefineMulti,
    DefineSize,
    DefineTriton,
    Event,
    FinishReduction,
    OnStream,
    Reuse,
)
from inductor_frontend.scope.memory import alias, allocate, reuse
from inductor_frontend.scope.scope import Scope
from inductor_frontend.translate.nodes import call_node
from wrapper_ir.ops import EnsureAligned, Provenance
from wrapper_ir.values import as_tensor

__all__ = ["translate"]

_ALIGNMENT = 16


def translate(scope: Scope, table: KernelTable) -> None:
    """Appends what was recorded for the scope's graph to its function. Runs inside upstream's context of that
    graph."""
    kernels, triton = Kernels(scope, table), TritonKernels(scope, table.triton)
    before, events = scope.streams.told(scope.graph.recording.events)
    for event in before:
        _event(scope, kernels, triton, event)
    scope.streams.begin()
    for event in events:
        begin = len(scope.function.ops)
        _event(scope, kernels, triton, event)
        scope.streams.place(begin)
    wait_for_rest(scope)
    scope.streams.end()


def _event(scope: Scope, kernels: Kernels, triton: TritonKernels, event: Event) -> None:
    match event:
        case Allocate():
            allocate(scope, event)
        case Reuse():
            reuse(scope, event)
        case Alias():
            alias(scope, event)
        case DefineKernel():
            kernels.define(event)
        case CallKernel():
            kernels.call(event)
        case DefineTriton():
            triton.define(event)
        case DefineMulti():
            triton.define_multi(event)
        case AllocateWorkspace():
            triton.allocate(event)
        case CallTriton():
            triton.call(event)
        case FinishReduction():
            finish_reduction(scope, event)
        case CallNode():
            call_node(scope, event)
        case OnStream():
            scope.streams.enter(event)
        case DefineSize():
            scope.symbols.define(event.symbol, scope.expr(event.expr))
        case CheckInput():
            _check_input(scope, event)
        case AlignInput():
            _align_input(scope, event)
        case _:
            assert_never(event)


def _check_input(scope: Scope, event: CheckInput) -> None:
    """Constants are what capture saw; only parameters are checked."""
    if not scope.options.layout_asserts or scope.constants.holds(event.name):
        return
    scope.guards.assert_layout(scope.value(event.name))


def _align_input(scope: Scope, event: AlignInput) -> None:
    source = as_tensor(scope.value(event.name))
    result = scope.function.value(f"{event.name}.a", source.type)
    prov = Provenance(upstream=event.name)
    scope.function.append(EnsureAligned(source=source, result=result, alignment=_ALIGNMENT, prov=prov))
    scope.bind(event.name, result)
