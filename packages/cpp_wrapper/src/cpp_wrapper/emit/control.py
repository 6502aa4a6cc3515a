"""Writes the end of `main`; this edition writes no other control flow."""

from __future__ import annotations

from cpp_wrapper.emit.scope import FunctionScope
from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.lowering import steps
from wrapper_ir.ops import Arg
from wrapper_ir.signature import Signature
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["return_"]


def return_(step: steps.Return, scope: FunctionScope) -> None:
    """Hands results over in the end, when nothing can fail any more."""
    given: list[str] = []
    last = {value: number for number, value in enumerate(step.values) if isinstance(value, Value)}
    _write_back(step, scope)
    for number, value in enumerate(step.values):
        if isinstance(value, Value) and value in scope.live and last[value] == number:
            given.append(scope.live[value])
        else:
            name = scope.slot(f"result_{number}")
            scope.line(_result(value, name, scope))
            given.append(name)
    for number, name in enumerate(given):
        scope.line(f"outputs[{number}] = take(t[{name}]);")


def _write_back(step: steps.Return, scope: FunctionScope) -> None:
    """Results that a call writes into the caller's tensors."""
    signature: Signature = scope.module.plan.artifact.signature
    for back in signature.write_backs:
        value = step.values[back.result]
        assert isinstance(value, Value)
        scope.line(f"copy(inputs[{signature.params.index(back.leaf)}], {scope.handle(value)});")


def _result(value: Arg, name: str, scope: FunctionScope) -> str:
    match value:
        case Value() if isinstance(value.type, TensorType):
            return f"t[{name}] = same({scope.handle(value)});"
        case Value() if value in scope.numbers:
            return f"result(t[{name}], {scope.numbers[value]});"
        case Expr():
            text = scope.number(value)
            return f"result(t[{name}], {f'Int({text})' if value.kind is SymKind.INT else text});"
        case _:
            raise scope.error("CPP503", f"result {value!r} is neither a tensor nor a number")
