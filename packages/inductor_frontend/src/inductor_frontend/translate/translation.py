"""Translates the events of one graph to the body of one function."""

from __future__ import annotations

from typing import assert_never

from inductor_frontend.kernels.launches import KernelTable, Launches
from inductor_frontend.kernels.partial import finish_reduction
from inductor_frontend.operators.collectives import wait_for_rest
from inductor_frontend.record import events
from inductor_frontend.scope.memory import alias, allocate, reuse
from inductor_frontend.scope.scope import Scope
from inductor_frontend.translate.nodes import call_node
from wrapper_ir import ir

_ALIGNMENT = 16


def translate(scope: Scope, table: KernelTable) -> None:
    """Appends the recording of the scope's graph to its function. Must run inside Inductor's context of that
    graph."""
    launches = Launches(scope, table)
    before, recorded = scope.streams.split_prologue(scope.graph.recording.events)
    for event in before:
        _event(scope, launches, event)
    scope.streams.begin()
    for event in recorded:
        begin = len(scope.function.ops)
        _event(scope, launches, event)
        scope.streams.place(begin)
    wait_for_rest(scope)
    scope.streams.end()


def _event(scope: Scope, launches: Launches, event: events.Event) -> None:
    match event:
        case events.Allocate():
            allocate(scope, event)
        case events.Reuse():
            reuse(scope, event)
        case events.Alias():
            alias(scope, event)
        case events.DefineKernel() | events.DefineTriton() | events.DefineMulti():
            launches.define(event)
        case events.AllocateWorkspace():
            launches.allocate(event)
        case events.CallKernel():
            launches.call(event)
        case events.FinishReduction():
            finish_reduction(scope, event)
        case events.CallNode():
            call_node(scope, event)
        case events.OnStream():
            scope.streams.enter(event)
        case events.DefineSize():
            scope.symbols.define(event.symbol, scope.expr(event.expr))
        case events.CheckInput():
            _check_input(scope, event)
        case events.AlignInput():
            _align_input(scope, event)
        case _:
            assert_never(event)


def _check_input(scope: Scope, event: events.CheckInput) -> None:
    """Emits a layout check of a parameter. Constants are not checked: they are the tensors that were
    captured."""
    if not scope.options.layout_asserts or scope.constants.holds(event.name):
        return
    scope.guards.assert_layout(scope.value(event.name))


def _align_input(scope: Scope, event: events.AlignInput) -> None:
    source = ir.as_tensor(scope.value(event.name))
    result = scope.function.value(f"{event.name}.a", source.type)
    prov = ir.Provenance(frontend_name=event.name)
    scope.function.append(ir.EnsureAligned(source=source, result=result, alignment=_ALIGNMENT, prov=prov))
    scope.bind(event.name, result)
