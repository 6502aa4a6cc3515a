"""Writes the function that captures and replays another."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.writer import Writer, tuple_text
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir.support.quoting import python_string
from wrapper_ir_lowering import FunctionPlan


def write_replay(plan: FunctionPlan, scope: ModuleScope, out: Writer) -> None:
    """Writes the function that replaces a replayable function for callers; nothing for others."""
    name = scope.replay_names.get(plan.name)
    if name is None or plan.replay is None:
        return
    facts = plan.replay
    device, graphs = python_string(str(facts.device)), scope.helper(Helper.GRAPHS)
    device_graphs = f"{scope.runtime('DEVICE_GRAPHS')}.get({device}, {graphs})"
    positions = {
        "tensors": facts.tensors,
        "static": facts.static,
        "written": facts.written,
        "given": facts.given,
    }
    args = [scope.function_names[plan.name], python_string(plan.name), f"limit={scope.options.cuda_graphs}"]
    args += [
        f"{key}={tuple_text([str(i) for i in numbers])}" for key, numbers in positions.items() if numbers
    ]
    out.line()
    out.line()
    out.origin = LineOrigin(note=f"captures and replays @{plan.name}")
    out.items(f"{name} = {device_graphs}.graphed(", args, ")")
