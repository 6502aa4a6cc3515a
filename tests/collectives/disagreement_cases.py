"""Processes whose programs share memory and differ: every engine of each raises before anything runs.

Cases of `parallel_worker.py`. The program is for a possibly absent GPU. Processes that agree fail later, with
another error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fx_converter
import py_wrapper
from tests.collectives.rank_cases import refused
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import code_of
from wrapper_ir_runtime.interp import Interpreter

# Any in this file: programs of any signature
_TEXT = """wir 0.5
target cuda:0 arch "sm_90"

kernel cpp @fill entry "kernel" (write f32* target) {{{{{{
extern "C" void kernel(float* target) {{ target[0] = 1; }}  // {choice}
}}}}}}

func @main({inputs}) {{
  comment "{comment}"
  %s = alloc_storage 64 symmetric("0", {id})
  free %s
  return
}}
"""
_USUAL: Mapping[str, object] = MappingProxyType(
    {"inputs": "", "id": 5, "choice": "8 rows a step", "comment": "a program"}
)
_PLANTED: Mapping[str, tuple[Mapping[str, object], str]] = MappingProxyType(
    {
        "inputs": ({"inputs": "%n: int"}, "inputs: "),
        "plan": ({"id": 6}, "plan @main: "),
        "tuning": ({"choice": "16 rows a step"}, "tuning: "),
        "program": ({"comment": "another program"}, "program: "),
    }
)
"""The last process's difference, and the line that reveals it."""
_ENGINES: Mapping[str, Callable[[Artifact], Callable[..., Any]]] = MappingProxyType(
    {
        "interpreter": lambda artifact: Interpreter(artifact, py_wrapper.TORCH_MACHINE),
        "Python": py_wrapper.compile,
        "FX": fx_converter.convert,
    }
)


def planted_disagreements(rank: int, world: int, folder: Path) -> None:
    """One difference in each of inputs, plan, tuning and program.

    No program has been agreed on before, since a process may run such a program alone.
    """
    turns = itertools.count()
    for make in _ENGINES.values():
        try:
            _run(make, {**_USUAL, "id": 10 * next(turns)})
        except Exception as error:
            assert code_of(error) != "WIR933", error
        for changes, line in _PLANTED.values():
            usual = {**_USUAL, "id": 10 * next(turns)}
            with refused("WIR933", f"rank 0 has `{line}", f"rank {world - 1} has `{line}"):
                _run(make, {**usual, **changes} if rank == world - 1 else usual)


def host_program(id: int) -> Artifact:
    """A program for the CPU that allocates memory of a GPU."""
    text = _TEXT.format(**{**_USUAL, "id": id}).replace('target cuda:0 arch "sm_90"', "target cpu")
    return bare_artifact(parse_program(text.replace("alloc_storage 64", "alloc_storage 64 @cuda:0")))


def _run(make: Callable[[Artifact], Callable[..., Any]], given: Mapping[str, object]) -> None:
    program = parse_program(_TEXT.format(**given))
    make(bare_artifact(program))(*[1] * len(program.main.params))
