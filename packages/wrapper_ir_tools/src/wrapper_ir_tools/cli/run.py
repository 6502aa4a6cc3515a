"""Runs an artifact on inputs made from its parameters' types, for `wir run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Number
from wrapper_ir.operators.policy import OperatorPolicy
from wrapper_ir.plugins.protocols import Emitter, Machine, OperatorEmitter
from wrapper_ir.plugins.registry import emitter
from wrapper_ir.plugins.registry import machine as find_machine
from wrapper_ir.verifier.allowed_operators import check_operators
from wrapper_ir_runtime.interp import example_inputs


class RunChoices(TypedDict):
    """The options of `wir run`.

    They are an engine, a machine, the number of calls, the seed of the inputs, and operators with reach that
    the program may call.
    """

    engine: str
    machine: str
    repeat: int
    seed: int
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The results and times of the calls of `wir run`."""

    engine: str
    results: tuple[object, ...]
    """For each result of the last call: sizes and strides of a tensor, otherwise the value."""
    seconds: tuple[float, ...]
    """Wall-clock time of each call."""

    def to_json(self) -> dict[str, object]:
        """Converts the report to JSON types; `best_seconds` is the shortest call."""
        return {
            "engine": self.engine,
            "results": [r.to_json() if isinstance(r, _TensorShape) else r for r in self.results],
            "seconds": list(self.seconds),
            "best_seconds": min(self.seconds),
        }

    def lines(self) -> Iterator[str]:
        """Formats the report for a terminal."""
        for number, result in enumerate(self.results):
            yield f"result {number}: {result}"
        yield f"{self.engine}: {len(self.seconds)} call(s), best {min(self.seconds) * 1e3:.3f} ms"


@dataclass(frozen=True, slots=True)
class _TensorShape:
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor {list(self.sizes)} strides {list(self.strides)}"

    def to_json(self) -> dict[str, list[int]]:
        return {"sizes": list(self.sizes), "strides": list(self.strides)}


def run_artifact(artifact: Artifact, symbols: Mapping[str, Number], choices: RunChoices) -> RunReport:
    """Calls the program `repeat` times on the same inputs. Raises the errors of the engine."""
    machine = find_machine(choices["machine"])
    call = _callable(artifact, choices["engine"], machine, choices["operators"])
    results: Sequence[object] = ()
    times: list[float] = []
    for _ in range(choices["repeat"]):
        inputs = example_inputs(artifact.program, machine, choices["seed"], symbols)
        start = time.perf_counter()
        results = call(inputs)
        times.append(time.perf_counter() - start)
    described = tuple(_describe(result, machine) for result in results)
    return RunReport(engine=choices["engine"], results=described, seconds=tuple(times))


def checked_emitter(name: str, artifact: Artifact, allowed: tuple[str, ...]) -> Emitter[Any]:
    """Returns the emitter, for a program that may call these operators with reach.

    Raises NotSupportedError WIR917, also for emitters without an operator policy.
    """
    policy = OperatorPolicy(allow=allowed)
    check_operators(artifact.program, policy)
    engine: Emitter[Any] = emitter(name)
    return engine.with_operators(policy) if isinstance(engine, OperatorEmitter) else engine


def _callable(
    artifact: Artifact, engine: str, machine: Machine[Any], operators: tuple[str, ...]
) -> Callable[[list[object]], Sequence[object]]:
    if engine == "interpreter":
        from wrapper_ir_runtime.interp import InterpOptions, run

        options = InterpOptions(operators=OperatorPolicy(allow=operators))
        return lambda inputs: run(artifact, inputs, machine, options)
    return checked_emitter(engine, artifact, operators).compile(artifact).boxed


def _describe(result: object, machine: Machine[Any]) -> object:
    if not machine.is_tensor(result):
        return result
    return _TensorShape(tuple(machine.sizes(result)), tuple(machine.strides(result)))
