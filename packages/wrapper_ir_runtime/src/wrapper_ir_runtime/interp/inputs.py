"""Creates inputs from the types of a program's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import Expr, Number, SymKind
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.plugins.protocols import Machine

T = TypeVar("T")


def symbol_values(program: ir.Program, numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Returns a value for every symbol: the given one, its hint, its lower bound, or 2.

    Raises ExecutionError WIR925 for a given symbol that the program does not declare.
    """
    if unknown := sorted(set(numbers) - {s.name for s in program.symbols}):
        names = ", ".join(s.name for s in program.symbols) or "none"
        raise ExecutionError(
            "WIR925", f"the program has no symbol {', '.join(unknown)}", hint=f"it declares: {names}"
        )
    values: dict[str, Number] = {}
    for symbol in program.symbols:
        fallback = symbol.hint if symbol.hint is not None else symbol.lower
        values[symbol.name] = numbers.get(symbol.name, 2 if fallback is None else fallback)
    return values


def example_inputs(
    program: ir.Program, machine: Machine[T], seed: int, numbers: Mapping[str, Number]
) -> list[Any]:  # Any: the machine's tensors and numbers
    """Returns one input for each parameter of `main`.

    Raises ExecutionError WIR925 for a parameter that is neither a tensor nor a number, and ExpressionError
    WIR408 if the size in bytes is not an int64.
    """
    values = symbol_values(program, numbers)

    def sizes(dims: tuple[Expr, ...]) -> list[int]:
        return [int(evaluate(d, values)) for d in dims]

    def make(number: int, name: str, type: ir.Type) -> T | Number:
        match type:
            case ir.TensorType():
                evaluate(ir.extent_bytes(type), values)  # raises if no library can allocate it
                return machine.example(type, sizes(type.sizes), sizes(type.strides), seed + number)
            case ir.ScalarType(kind=kind):
                return {SymKind.INT: 2, SymKind.FLOAT: 0.5, SymKind.BOOL: True}[kind]
            case _:
                raise ExecutionError("WIR925", f"cannot make up an input for parameter %{name}: {type}")

    return [make(i, p.value.name, p.value.type) for i, p in enumerate(program.main.params)]
