"""Selects functions to capture as CUDA graphs (`text/graphs.cpp`), and writes the runtime's table of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.own_memory import function_foreign_memory
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import FunctionPlan, Plan
from wrapper_ir_lowering.steps import ReplayFacts

_MATMUL_TYPES = (ir.DType.F32, ir.DType.F16, ir.DType.BF16)


@dataclass(frozen=True, slots=True)
class GraphedFunctions:
    """The functions of a program that may be captured.

    `numbers` are their rows in the table, by name. `refusals` are reasons why other replayable functions are
    not captured. `parts` are all functions that run during a capture.
    """

    numbers: Mapping[str, int]
    refusals: Mapping[str, str]
    parts: frozenset[str]


def find_graphed(plan: Plan, limit: int) -> GraphedFunctions:
    """Selects the functions to capture, each at most `limit` times."""
    analyses = plan.analyses
    numbers: dict[str, int] = {}
    refusals: dict[str, str] = {}
    for function in plan.functions:
        if function.replay is None:
            continue
        why = "CUDA graphs are switched off" if limit < 1 else _refusal(function, analyses)
        if why:
            refusals[function.name] = why
        else:
            numbers[function.name] = len(numbers)
    return GraphedFunctions(numbers, refusals, frozenset(_with_callees(numbers, analyses)))


def _with_callees(names: Mapping[str, int], analyses: Analyses) -> Iterator[str]:
    pending, reachable = list(names), set(names)
    while pending:
        name = pending.pop()
        yield name
        inner = {c for op in analyses.functions[name].body for c in ir.callees(op)} - reachable
        pending += sorted(inner)
        reachable |= inner


def _refusal(plan: FunctionPlan, analyses: Analyses) -> str:
    """Returns the reason why a replayable function is not captured; "" if it is."""
    if any(getattr(op, "stream", 0) for op in plan.function.body):  # ops that queue nothing have none
        return "it is work of several streams"
    if plan.replay is not None and plan.replay.given:
        return "it ends arguments"
    return function_foreign_memory(plan.name, analyses) or _other_matmul(plan, analyses)


def _other_matmul(plan: FunctionPlan, analyses: Analyses) -> str:
    """Describes a matmul of element types that the runtime does not support; "" if there is none."""
    for name in _with_callees({plan.name: 0}, analyses):
        for op in analyses.functions[name].body:
            types = [v.type for v in ir.operands(op) if ir.is_tensor(v)]
            if isinstance(op, ir.CallExtern) and any(type.dtype not in _MATMUL_TYPES for type in types):
                return f"{op.target} is not a matmul of {', '.join(t.value for t in _MATMUL_TYPES)}"
    return ""


def replayable_table(graphed: GraphedFunctions, plan: Plan) -> list[str]:
    """Returns the runtime's table of captured functions: see `Replayable` in `text/gpu.h`."""
    if not graphed.numbers:
        return []
    rows = []
    for function in plan.functions:
        if function.name in graphed.numbers and function.replay is not None:
            letters = _inputs(function.function, function.replay), _results(function, plan)
            rows.append(f"  {{{', '.join(map(cpp_string, (function.name, *letters)))}}},")
    return ["const Replayable kReplayables[] = {", *rows, "};"]


def _inputs(function: ir.Function, facts: ReplayFacts) -> str:
    letters = {(False, False): "c", (True, False): "s", (False, True): "w", (True, True): "p"}
    return "".join(
        letters[i in facts.static, i in facts.written]
        for i, p in enumerate(function.params)
        if ir.is_tensor(p.value) or ir.is_storage(p.value)
    )


def _results(function: FunctionPlan, plan: Plan) -> str:
    """Returns a letter for each result: `l` if its memory may be lent to the caller, `o` otherwise.

    It may be lent if main calls the function once, and neither returns nor resizes the memory.
    """
    analyses, main = plan.analyses, plan.program.main
    own = function.function.returns.values
    calls = [op for f in analyses.program.functions for op in f.body if function.name in ir.callees(op)]
    first = calls[0] if len(calls) == 1 and not plan.streams else None
    if not isinstance(first, ir.CallSubgraph) or first not in main.body:
        return "o" * len(own)
    aliasing = analyses.aliasing(main)
    lasting = set(aliasing.escaped)
    resized = [op.target for op in main.ops_of(ir.ResizeStorage)]
    for value in (*main.returns.values, *resized):
        lasting.update(aliasing.roots.get(value, NO_ROOTS) if isinstance(value, ir.Value) else NO_ROOTS)
    return "".join(
        "l" if lasting.isdisjoint(aliasing.roots.get(result, NO_ROOTS)) else "o" for result in first.results
    )
