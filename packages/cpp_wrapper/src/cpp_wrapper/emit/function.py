"""Writes `main`: a struct with the call's handles and numbers, whose parts are functions of a bounded length.

Handles stand in one array, which is freed where a part fails: functions have nothing to clean up, so that compilers need
time in proportion to their length.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from cpp_wrapper.emit.scope import FunctionScope
from cpp_wrapper.emit.table import WRITERS
from wrapper_ir.expr import SymKind
from wrapper_ir.lowering import steps
from wrapper_ir.lowering.steps import Step
from wrapper_ir.ops import Provenance
from wrapper_ir.quoting import cpp_string

__all__ = ["source_text", "write_main"]

_PART = 200
"""Lines after which a function ends with a step."""
_MEMORY = (steps.Allocate, steps.Same, steps.Window, steps.ByteWindow, steps.BeginSlot)
_NUMBERS = {SymKind.INT: "Int", SymKind.FLOAT: "double", SymKind.BOOL: "bool"}
_SHOWN = 6


def write_main(scope: FunctionScope) -> list[str]:
    """The lines of the struct."""
    for number, param in enumerate(scope.plan.function.params):
        scope.line(f"{scope.bind(param.value)} = take(inputs[{number}]);")
    _keep_written(scope)
    at = ""
    all_steps = scope.plan.steps
    for number, step in enumerate(all_steps):
        scope.step = step
        text = source_text(_origin(all_steps, number))
        scope.break_part(_PART)
        if text and text != at:
            scope.line(f"run.at = {cpp_string(text)};")
            at = text
        WRITERS[type(step)](step, scope)
    return _struct(scope)


def _keep_written(scope: FunctionScope) -> None:
    """Inputs that results are written back to stay in the caller's array until the end."""
    signature = scope.module.plan.artifact.signature
    for leaf in dict.fromkeys(back.leaf for back in signature.write_backs):
        number = signature.params.index(leaf)
        value = scope.plan.function.params[number].value
        scope.line(f"inputs[{number}] = same({scope.handle(value)});")


def _origin(all_steps: Sequence[Step], number: int) -> Provenance:
    """Where the op comes from that a step works for: memory is made for the next op that computes."""
    for step in all_steps[number : number + 20]:
        if not isinstance(step, _MEMORY):
            return step.prov
    return all_steps[number].prov


def source_text(prov: Provenance) -> str:
    """`addmm: addmm, t (linear.py:134 in layers.0)`."""
    where = " in ".join([*(posixpath.basename(p) for p in prov.locations[:1]), *prov.modules[:1]])
    names = list(dict.fromkeys(name.removeprefix("aten.").removesuffix(".default") for name in prov.ops))
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    head = ": ".join([*prov.nodes[:1], *([shown] if shown else [])])
    return f"{head} ({where})" if head and where else head


def _struct(scope: FunctionScope) -> list[str]:
    lines = ["struct Main {"]
    if scope.slots:
        lines.append("  enum : int {")
        lines += [f"    {name} = {n}," for n, name in enumerate(scope.slots) if name]
        lines.append("  };")
    count = max(len(scope.slots), 1)
    lines += ["  Tensor* const c;", "  Tensor* const inputs;", "  Tensor* const outputs;", "  Run& run;"]
    lines += [f"  {_NUMBERS[kind]} {name}{{}};" for name, kind in scope.symbols]
    lines += [f"  Tensor t[{count}] = {{}};", f"  ~Main() {{ release(t, {count}); }}"]
    for number, part in enumerate(scope.parts):
        lines += ["", f"  void part_{number}() {{", *(f"    {text}" for text in part), "  }"]
    lines += ["};", "", "void run_main(Tensor* c, Tensor* inputs, Tensor* outputs, Run& run) {"]
    lines += ["  Main call{c, inputs, outputs, run};"]
    return [*lines, *(f"  call.part_{n}();" for n in range(len(scope.parts))), "}"]
