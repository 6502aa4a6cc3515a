"""Calls of operators that torch's stable dispatcher does not accept, in Python processes.

`cpp_wrapper.load` registers an operator for each: a bridge (`library/bridges.py`). It accepts a `Scalar` as a
tensor without dimensions, of the widest element type of its kind, and a process group by name. Torch's
dispatcher (2.11 to 2.15) reads returned values as the schema's types in reverse order. If the order matters,
a bridge returns all values again, reversed.
"""

from __future__ import annotations

import re

from cpp_wrapper._compat import takes_any
from cpp_wrapper.sources.scope import FunctionScope, ResultPath
from wrapper_ir.operators import native as native_operators
from wrapper_ir.operators.policy import runs_operator
from wrapper_ir.operators.symmetric import uses_workspace
from wrapper_ir_lowering import steps

_NAMESPACE = "wrapper_ir_cpp"
_NATIVE = f"{native_operators.NAMESPACE}::"
_SCALAR = re.compile(r"Scalar\b")


def bridge(step: steps.CallOperator | steps.StartCollective, scope: FunctionScope) -> str:
    """Returns the name of the bridge that a call needs.

    Returns '' if the dispatcher accepts the call, or the library is not only for Python processes.
    """
    name = step.operator.extern.name
    has_scalars = any(_SCALAR.match(a.schema.type) and a.value is not None for a in step.arguments)
    mirrored = mixes_returns(step)
    is_direct = not (has_scalars or takes_any(name) or mirrored or runs_operator(name))
    if not scope.module.python_operators or is_direct:
        return ""
    target = f"{_NAMESPACE}::{re.sub(r'[^a-zA-Z0-9]', '_', name)}"
    types = [_type_of(a) for a in step.arguments]
    declared = ", ".join(f"{type} {a.schema.name}" for type, a in zip(types, step.arguments))
    returns = [type for _, type in returned(step)]
    returns += reversed(returns) if mirrored else ()
    scope.module.bridges[name] = f"{target}({declared}) -> ({', '.join(returns)})"
    return target


def require_python(step: steps.CallOperator | steps.StartCollective, scope: FunctionScope) -> None:
    """Raises EmitError CPP502 if a library for any process calls an operator that needs Python's group
    memory, or that Python registers with torch."""
    name = step.operator.extern.name
    if name.startswith(_NATIVE) and not scope.module.python_operators:
        hint = 'build the library with runtime="native", or the artifact before the pass that wrote the call'
        raise scope.error("CPP502", f"operator {name} is for the native runtime", hint)
    if uses_workspace(step.operator.schema) and not scope.module.python_operators:
        hint = (
            "run lower-collectives without fused-matmuls and low-contention-threshold-bytes, "
            "or emit with py_wrapper or fx_converter"
        )
        raise scope.error("CPP502", f"operator {name} exists in Python only, with its group's memory", hint)


def mixes_returns(step: steps.CallOperator | steps.StartCollective) -> bool:
    """Returns whether torch's dispatcher reads returned values of the operator as wrong types."""
    types = [type.replace("SymInt", "int") for _, type in returned(step)]
    return types != types[::-1]


def returned(step: steps.CallOperator | steps.StartCollective) -> list[tuple[ResultPath, str]]:
    """Returns the path and type of each value that the dispatcher returns.

    A bridge flattens nested results (`(Tensor, (Tensor, Tensor))`).
    """
    types = [r.type for r in step.operator.schema.returns]
    values: list[tuple[ResultPath, str]] = []
    for i, type in enumerate(types):
        path: ResultPath = () if len(types) == 1 else (i,)
        if type.startswith("("):
            values += [((*path, j), inner.strip()) for j, inner in enumerate(type[1:-1].split(","))]
        else:
            values.append((path, type))
    return values


def _type_of(argument: steps.Argument) -> str:
    """Returns the bridge's type of an argument. From 2.13 on, torch declares the name of a group as Any."""
    if argument.schema.type == "Any" and isinstance(argument.value, str):
        return "str"
    return _SCALAR.sub("Tensor", argument.schema.type)
