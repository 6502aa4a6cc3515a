"""Runs an artifact on inputs made from its parameters' types, for `wir run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Number
from wrapper_ir.interp import example_inputs
from wrapper_ir.protocols import Machine
from wrapper_ir.registry import emitter
from wrapper_ir.registry import machine as find_machine

__all__ = ["run_artifact"]


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
