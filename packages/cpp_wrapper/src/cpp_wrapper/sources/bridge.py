"""Calls of operators that torch's stable dispatcher does not take, for processes of Python.

`cpp_wrapper.load` registers an operator for each: a bridge. It takes a `Scalar` as a tensor without dimensions, of the widest element
type of its kind, and the name of a process group as text. torch's dispatcher (2.11 to 2.15) reads returned values as the types of the
schema in reverse: where that makes a difference, a bridge returns all values once more, in reverse (`library/bridges.py`).
"""

from __future__ import annotations

import re

from cpp_wrapper._compat import takes_any
from cpp_wrapper.sources.scope import FunctionScope, ResultPath
from wrapper_ir.operators.policy import runs_operator
from wrapper_ir_lowering import steps

_NAMESPACE = "wrapper_ir_cpp"
_SCALAR = re.compile(r"Scalar\b")


def bridge(step: steps.CallOperator | steps.StartCollective, scope: FunctionScope) -> str:
    """The name of the bridge that the call needs; '' where the dispatcher takes the call as it is, or there is no Python."""
    name = step.operator.extern.name
    has_scalars = any(_SCALAR.match(a.schema.type) and a.value is not None for a in step.arguments)
    mirrored = mixes_returns(step)
    needed = has_scalars or takes_any(name) or mirrored or runs_operator(name)
    if not scope.module.python_operators or not needed:
        return ""
    made = f"{_NAMESPACE}::{re.sub(r'[^a-zA-Z0-9]', '_', name)}"
    types = [_type_of(a) for a in step.arguments]
    declared = ", ".join(f"{type} {a.schema.name}" for type, a in zip(types, step.arguments))
    returns = [type for _, type in returned(step)]
    returns += reversed(returns) if mirrored else ()
    scope.module.bridges[name] = f"{made}({declared}) -> ({', '.join(returns)})"
    return made


def mixes_returns(step: steps.CallOperator | steps.StartCollective) -> bool:
    """Whether torch's dispatcher reads what the operator returns as other types than it has."""
    types = [type.replace("SymInt", "int") for _, type in returned(step)]
    return types != types[::-1]


def returned(step: steps.CallOperator | steps.StartCollective) -> list[tuple[ResultPath, str]]:
    """The values that the dispatcher returns: the type of each, and its path among the operator's results. A bridge returns results
    within results (`(Tensor, (Tensor, Tensor))`) one after another."""
    types = [r.type for r in step.operator.schema.returns]
    found: list[tuple[ResultPath, str]] = []
    for i, type in enumerate(types):
        path: ResultPath = () if len(types) == 1 else (i,)
        if type.startswith("("):
            found += [((*path, j), inner.strip()) for j, inner in enumerate(type[1:-1].split(","))]
        else:
            found.append((path, type))
    return found


def _type_of(argument: steps.Argument) -> str:
    """What the bridge takes for an argument. torch declares the name of a group as anything from 2.13 on."""
    if argument.schema.type == "Any" and isinstance(argument.value, str):
        return "str"
    return _SCALAR.sub("Tensor", argument.schema.type)
