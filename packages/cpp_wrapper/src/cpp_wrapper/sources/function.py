"""Writes a function as a struct with the call's handles and numbers, and methods of bounded length.

All handles are in one array, whose destructor frees them after an error: methods have no cleanup code, so
compile time is proportional to their length.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from cpp_wrapper.sources.placement import on_stream
from cpp_wrapper.sources.scope import NUMBER_TYPES, FunctionScope
from cpp_wrapper.sources.table import WRITERS
from wrapper_ir import ir
from wrapper_ir.support.quoting import cpp_string
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.steps import Step
from wrapper_ir_lowering.writers import write_step

_PART = 200
"""Number of lines after which a method ends with the current step."""
_MEMORY = (steps.Allocate, steps.Same, steps.Window, steps.ByteWindow, steps.BeginSlot, steps.ResizeBlock)
_CALLS = (steps.Call, steps.Switch, steps.Loop)
_ELSEWHERE = "?"
"""Stands for the value of `run.at` after a call: a line of the called function."""
_SHOWN = 6


def write_function(scope: FunctionScope) -> list[str]:
    """Returns the lines of the struct, and of the C++ function that constructs one and runs its methods."""
    _take_arguments(scope)
    if scope.plan.is_main:
        _keep_written(scope)
    at = ""
    all_steps = scope.plan.steps
    for number, step in enumerate(all_steps):
        scope.step = step
        if step.at.op is not None:
            scope.origin = scope.module.origins.of(scope.plan.name, step.at.position)
        text = source_text(_origin(all_steps, number))
        scope.break_part(_PART)
        if text != at and (text or at == _ELSEWHERE):
            scope.line(f"run.at = {cpp_string(text)};")
            at = text
        with on_stream(step, scope):
            write_step(step, scope, WRITERS)
        if isinstance(step, _CALLS):
            at = _ELSEWHERE
    return _struct(scope)


def _take_arguments(scope: FunctionScope) -> None:
    """Reads handles from `inputs`, in order.

    Numbers are arguments, except those of `main`, which are handles.
    """
    function = scope.plan.function
    symbols = scope.module.plan.analyses.symbols
    for symbol in function.captures:
        scope.defined[symbol] = name = scope.module.names(symbol)
        scope.given.append((name, symbols[symbol].kind))
    position = 0
    for param in function.params:
        value = param.value
        if ir.is_scalar(value) and not scope.plan.is_main:
            scope.numbers[value] = name = scope.module.names(value.name)
            scope.given.append((name, value.type.kind))
        elif isinstance(value.type, ir.ScalarType | ir.TensorType | ir.StorageType):
            scope.line(f"{scope.bind(value)} = take(inputs[{position}]);")
            position += 1
        else:
            raise scope.error("CPP503", f"parameter %{value.name} is neither a tensor nor a number")


def _keep_written(scope: FunctionScope) -> None:
    """Keeps inputs with write-backs in the caller's array until the end."""
    signature = scope.module.plan.artifact.signature
    for leaf in dict.fromkeys(back.leaf for back in signature.write_backs):
        number = signature.params.index(leaf)
        value = scope.plan.function.params[number].value
        scope.line(f"inputs[{number}] = same({scope.handle(value)});")


def _origin(all_steps: Sequence[Step], number: int) -> ir.Provenance:
    """Returns the provenance of a step. That of memory is the next op that computes."""
    for step in all_steps[number : number + 20]:
        if not isinstance(step, _MEMORY):
            return step.prov
    return all_steps[number].prov


def source_text(prov: ir.Provenance) -> str:
    """Returns provenance as text: `addmm: addmm, t (linear.py:134 in layers.0)`."""
    where = " in ".join([*(posixpath.basename(p) for p in prov.locations[:1]), *prov.modules[:1]])
    names = list(dict.fromkeys(name.removeprefix("aten.").removesuffix(".default") for name in prov.ops))
    operators = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    head = ": ".join([*prov.nodes[:1], *([operators] if operators else [])])
    return f"{head} ({where})" if head and where else head


def declaration(scope: FunctionScope) -> str:
    """Returns the declaration of the C++ function."""
    head = ["Tensor* c", "Tensor* inputs", "Tensor* outputs", "Run& run"]
    head += [f"{NUMBER_TYPES[kind]} {name}" for name, kind in scope.given]
    head += [f"{NUMBER_TYPES[kind]}& {name}" for name, kind in scope.results]
    return f"void {scope.module.functions[scope.plan.name]}({', '.join(head)})"


def _struct(scope: FunctionScope) -> list[str]:
    struct = "Main" if scope.plan.is_main else scope.module.names(f"{scope.plan.name.capitalize()}Frame")
    lines = [f"struct {struct} {{"]
    if scope.slots:
        lines.append("  enum : int {")
        lines += [f"    {name} = {n}," for n, name in enumerate(scope.slots) if name]
        lines.append("  };")
    count = max(len(scope.slots), 1)
    lines += ["  Tensor* const c;", "  Tensor* const inputs;", "  Tensor* const outputs;", "  Run& run;"]
    members = ["c", "inputs", "outputs", "run"]
    if scope.plan.persistent.windows:
        lines.append("  Tensor* const k;")
        members.append("run.persistent")
    lines += [f"  const {NUMBER_TYPES[kind]} {name};" for name, kind in scope.given]
    lines += [f"  {NUMBER_TYPES[kind]}& {name};" for name, kind in scope.results]
    lines += [f"  {NUMBER_TYPES[kind]} {name}{{}};" for name, kind in scope.symbols]
    lines += [f"  Event {name};" for name in scope.events.values()]
    lines += [f"  Tensor t[{count}] = {{}};", f"  ~{struct}() {{ release(t, {count}); }}"]
    for number, part in enumerate(scope.parts):
        lines += ["", f"  void part_{number}() {{", *(line.indented() for line in part), "  }"]
    members += [name for name, _ in (*scope.given, *scope.results)]
    lines += ["};", ""]
    parts = [f"call.part_{n}();" for n in range(len(scope.parts))]
    return [*lines, *_body(scope, f"{struct} call{{{', '.join(members)}}};", parts)]


def _body(scope: FunctionScope, construction: str, parts: Sequence[str]) -> list[str]:
    """Returns the C++ function, which may be captured as a CUDA graph."""
    graphed, name = scope.module.graphed, scope.plan.name
    why = graphed.refusals.get(name)
    lines = [f"// not captured as a CUDA graph: {why}"] if why else []
    if name not in graphed.numbers:
        return [
            *lines,
            f"{declaration(scope)} {{",
            f"  {construction}",
            *(f"  {part}" for part in parts),
            "}",
        ]
    number = graphed.numbers[name]
    key = ", ".join(f"graph_key({argument})" for argument, _ in scope.given)
    return [
        f"// captured as a CUDA graph for each of its keys, {scope.module.cuda_graphs} at a time",
        f"{declaration(scope)} {{",
        f"  graphed(run, {number}, {{{key}}}, inputs, outputs, [&](Tensor* inputs, Tensor* outputs) {{",
        f"    {construction}",
        *(f"    {part}" for part in parts),
        "  });",
        "}",
    ]
