"""Runs an artifact on inputs made from its parameters' types, for `wir run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.expr import Expr, SymKind
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.program import Program
from wrapper_ir.protocols import Machine
from wrapper_ir.registry import emitter
from wrapper_ir.registry import machine as find_machine
from wrapper_ir.types import ScalarType, TensorType, Type

__all__ = ["example_inputs", "run_artifact"]

Number = int | float | bool


def symbol_values(program: Program, given: Mapping[str, Number]) -> dict[str, Number]:
    """A value for every symbol: the given one, its hint, its lower bound, or 2; raises ExecutionError WIR925 for a
    given symbol that the program does not declare."""
    if unknown := sorted(set(given) - {s.name for s in program.symbols}):
        known = ", ".join(s.name for s in program.symbols) or "none"
        raise ExecutionError(
            "WIR925", f"the program has no symbol {', '.join(unknown)}", hint=f"it declares: {known}"
        )
    values: dict[str, Number] = {}
    for symbol in program.symbols:
        fallback = symbol.hint if symbol.hint is not None else symbol.lower
        values[symbol.name] = given.get(symbol.name, 2 if fallback is None else fallback)
    return values


def example_inputs(
    program: Program, machine: Machine[Any], seed: int, given: Mapping[str, Number]
) -> list[Any]:  # Any: the machine's tensors
    """One input for each parameter of `main`; raises ExecutionError WIR925 for a parameter that cannot be made up."""
    values = symbol_values(program, given)

    def sizes(dims: tuple[Expr, ...]) -> list[int]:
        return [int(evaluate(d, values)) for d in dims]

    def make(number: int, name: str, type: Type) -> Any:
        match type:
            case TensorType():
                return machine.example(type, sizes(type.sizes), sizes(type.strides), seed + number)
            case ScalarType(kind=kind):
                return {SymKind.INT: 2, SymKind.FLOAT: 0.5, SymKind.BOOL: True}[kind]
            case _:
                raise ExecutionError("WIR925", f"cannot make up an input for parameter %{name}: {type}")

    return [make(i, p.value.name, p.value.type) for i, p in enumerate(program.main.params)]


def run_artifact(
    artifact: Artifact, engine: str, machine_name: str, repeat: int, seed: int, given: Mapping[str, Number]
) -> Iterator[str]:
    """Lines that describe the results of `repeat` calls and their times."""
    machine = find_machine(machine_name)
    call = _callable(artifact, engine, machine)
    results: Any = ()
    times: list[float] = []
    for _ in range(max(1, repeat)):
        inputs = example_inputs(artifact.program, machine, seed, given)
        start = time.perf_counter()
        results = call(inputs)
        times.append(time.perf_counter() - start)
    for number, result in enumerate(results):
        yield f"result {number}: {_describe(result, machine)}"
    yield f"{engine}: {len(times)} call(s), best {min(times) * 1e3:.3f} ms"


def _callable(artifact: Artifact, engine: str, machine: Machine[Any]) -> Callable[[list[Any]], Any]:
    if engine == "interpreter":
        from wrapper_ir.interp import run

        return lambda inputs: run(artifact, inputs, machine)
    return emitter(engine).compile(artifact).boxed


def _describe(result: object, machine: Machine[Any]) -> str:
    if not machine.is_tensor(result):
        return repr(result)
    return f"tensor {list(machine.sizes(result))} strides {list(machine.strides(result))}"
