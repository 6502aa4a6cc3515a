"""Writes calls of kernels, operators and collectives, and unpacks their results."""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import targets
from wrapper_ir import ir
from wrapper_ir.analysis.repeatable import DROPOUT, repeats_on
from wrapper_ir.expr import Expr, Float, Int
from wrapper_ir.support.quoting import python_keyword, python_string
from wrapper_ir_lowering import steps


def launch(step: steps.Launch, scope: FunctionScope) -> None:
    """Calls a loaded kernel with its ordered arguments, and the numbers of its grid."""
    args = [arg for _, arg in step.args]
    texts = [scope.expr(a) if isinstance(a, Expr) else scope.arg(a) for a in (*args, *step.grid)]
    scope.out.items(f"{scope.module.kernel_names[step.kernel.name]}(", texts, ")")


def _call(
    step: steps.CallOperator | steps.StartCollective, head: str, function: str, scope: FunctionScope
) -> None:
    """Writes `head` and a call of `function`. Numbers equal to the schema's defaults are omitted, because
    parsing them takes torch longer."""
    texts = [scope.arg(a.value) for a in step.arguments if a.given is steps.Given.POSITION]
    texts += [
        python_keyword(a.schema.name, scope.arg(a.value))
        for a in step.arguments
        if a.given is steps.Given.KEYWORD and not _is_usual_number(a)
    ]
    scope.out.items(f"{head}{function}(", texts, ")")


def _is_usual_number(argument: steps.Argument) -> bool:
    return argument.is_default and isinstance(argument.value, Int | Float)


def call_operator(step: steps.CallOperator, scope: FunctionScope) -> None:
    head = "" if step.result is None else f"{scope.bind(step.result)} = "
    _call(step, head, _operator(step, scope), scope)


def _operator(step: steps.CallOperator, scope: FunctionScope) -> str:
    """Returns the operator's function, or one that launches its kernels again if the device supports it."""
    name, module = step.operator.extern.name, scope.module
    device = _device(step) if module.options.repeated_operators else None
    dropout = next((a.value for a in step.arguments if a.schema.name == DROPOUT), None)
    if device is None or not repeats_on(name, device, dropout):
        return module.extern_names[name]
    target, calls = python_string(str(device)), module.operator_calls[name]
    text = f"{module.helper(Helper.REPEATED)}({python_string(name)}, {target}, {calls})"
    return scope.lookup(ir.overload_path(name)[1].lstrip("_"), text)


def _device(step: steps.CallOperator) -> ir.Device | None:
    """Returns the device of the operator's first argument, if it is a tensor."""
    first = step.arguments[0].value if step.arguments else None
    return first.type.device if isinstance(first, ir.Value) and ir.is_tensor(first) else None


def start_collective(step: steps.StartCollective, scope: FunctionScope) -> None:
    """Calls a functional collective, whose results must be waited for, or a function that waits."""
    names = [scope.bind(result) for result in step.results]
    head = targets(names) if step.is_list or len(names) != 1 else f"{names[0]} = "
    _call(step, head, _collective(step, scope), scope)


def _collective(step: steps.StartCollective, scope: FunctionScope) -> str:
    name = step.operator.extern.name
    if not step.is_finished:
        return scope.module.extern_names[name]
    text = f"{scope.module.helper(Helper.FINISHED)}({python_string(name)})"
    return scope.lookup(f"finished_{name.rpartition('::')[2].rstrip('_')}", text)


def wait(step: steps.Wait, scope: FunctionScope) -> None:
    """Calls torch's operator that waits."""
    source = scope.name(step.source)
    wait = scope.lookup("wait_tensor", "torch.ops._c10d_functional.wait_tensor.default")
    scope.out.line(f"{scope.bind(step.result)} = {wait}({source})")


def unpack(step: steps.Unpack, scope: FunctionScope) -> None:
    """Indexes a result; an empty path is the result itself."""
    path = "".join(f"[{python_string(part) if isinstance(part, str) else part}]" for part in step.path)
    source = scope.name(step.source)
    scope.out.line(f"{scope.bind(step.result)} = {source}{path}")
