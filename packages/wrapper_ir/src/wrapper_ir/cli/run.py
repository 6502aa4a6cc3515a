"""Runs an artifact on inputs made from its parameters' types, for `wir run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypedDict

from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Number
from wrapper_ir.interp import example_inputs
from wrapper_ir.operators import OperatorPolicy, check_operators
from wrapper_ir.protocols import Emitter, Machine, OperatorEmitter
from wrapper_ir.registry import emitter
from wrapper_ir.registry import machine as find_machine

__all__ = ["RunChoices", "checked_emitter", "run_artifact"]


class RunChoices(TypedDict):
    """What `wir run` is told: an engine, a machine, how many calls, the seed of the inputs, and operators with reach
    that the program may call."""

    engine: str
    machine: str
    repeat: int
    seed: int
    operators: tuple[str, ...]


def run_artifact(artifact: Artifact, given: Mapping[str, Number], choices: RunChoices) -> Iterator[str]:
    """Lines that describe the results of the calls and their times."""
    machine = find_machine(choices["machine"])
    call = _callable(artifact, choices["engine"], machine, choices["operators"])
    results: Any = ()
    times: list[float] = []
    for _ in range(max(1, choices["repeat"])):
        inputs = example_inputs(artifact.program, machine, choices["seed"], given)
        start = time.perf_counter()
        results = call(inputs)
        times.append(time.perf_counter() - start)
    for number, result in enumerate(results):
        yield f"result {number}: {_describe(result, machine)}"
    yield f"{choices['engine']}: {len(times)} call(s), best {min(times) * 1e3:.3f} ms"


def checked_emitter(name: str, artifact: Artifact, allowed: tuple[str, ...]) -> Emitter[Any]:
    """The emitter, for a program that may call these operators with reach; raises NotSupportedError WIR917, for emitters,
    too, that do not mind operators."""
    policy = OperatorPolicy(allow=allowed)
    check_operators(artifact.program, policy)
    found: Emitter[Any] = emitter(name)
    return found.with_operators(policy) if isinstance(found, OperatorEmitter) else found


def _callable(
    artifact: Artifact, engine: str, machine: Machine[Any], operators: tuple[str, ...]
) -> Callable[[list[Any]], Any]:
    if engine == "interpreter":
        from wrapper_ir.interp import InterpOptions, run

        options = InterpOptions(operators=OperatorPolicy(allow=operators))
        return lambda inputs: run(artifact, inputs, machine, options)
    return checked_emitter(engine, artifact, operators).compile(artifact).boxed


def _describe(result: object, machine: Machine[Any]) -> str:
    if not machine.is_tensor(result):
        return repr(result)
    return f"tensor {list(machine.sizes(result))} strides {list(machine.strides(result))}"
