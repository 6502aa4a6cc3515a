"""Corrupts real programs many times; run by `test_soundness.py` in a separate process.

Usage: `python tests/soundness/soundness_worker.py COUNT SEED PROGRAM...`, with models of the zoo or of
`soundness_programs`. Each corrupted program is refused by the verifier with a code, or runs in the
interpreter and in emitted Python: both return the same results, or both raise an error. A loop that does not
end in the interpreter is not run in Python. Prints the case before running it, so that a crash names its
corruption.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

import inductor_frontend
import py_wrapper
from tests.collectives.collective_cases import lonely_group
from tests.common.compare import clone_tree
from tests.common.zoo import ZOO
from tests.soundness.soundness_programs import PROGRAMS
from wrapper_ir import verify
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError, code_of
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing.corrupt import corrupt

PATTERN = 0x7B
MAX_OPS = 5_000
"""A loop whose condition was corrupted may be valid and never end.

The programs themselves run far fewer ops.
"""


def program_of(name: str) -> tuple[Artifact, list[Any]]:  # Any: tensors and numbers
    """Returns the program to corrupt, and flat arguments for it."""
    if name in PROGRAMS:
        return PROGRAMS[name]()
    case = ZOO[name]()
    artifact = inductor_frontend.capture(case.model, case.args, case.kwargs)
    return artifact, [*case.args, *(case.kwargs or {}).values()]


def with_own_state(artifact: Artifact) -> Artifact:
    """Returns the same artifact with separate constants: a run must not see writes of another."""
    constants = {
        name: dataclasses.replace(data, buffer=memoryview(bytearray(data.buffer)))
        for name, data in artifact.constants.items()
    }
    return dataclasses.replace(artifact, constants=constants)


def outcome(kind: str, artifact: Artifact, inputs: list[Any]) -> tuple[Any, ...] | str:
    """Returns the results and the inputs afterwards, or the name of the error."""
    artifact, inputs = with_own_state(artifact), clone_tree(inputs)
    try:
        if kind == "interpreter":
            options = InterpOptions(poison=PATTERN, max_ops=MAX_OPS)
            found = run(artifact, list(inputs), py_wrapper.TORCH_MACHINE, options)
        else:
            compiled = py_wrapper.compile(artifact, py_wrapper.PyOptions(poison=PATTERN))
            found = tuple(compiled.boxed(list(inputs)))
        return (*found, *inputs)
    except Exception as error:
        return f"[{code_of(error)}] {type(error).__name__}: {error}"


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, NaNs included."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.is_floating_point():
            return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(a.isnan(), b.isnan())
        return torch.equal(a, b)
    return type(a) is type(b) and a == b


def check(artifact: Artifact, inputs: list[Any]) -> str:
    """Returns the outcome of one corrupted program; raises AssertionError if it is unsound."""
    try:
        verify(artifact)
    except VerificationError as error:
        assert error.code.startswith(("WIR0", "WIR1", "WIR2")), error  # of the program, or of its signature
        return "refused"
    a = outcome("interpreter", artifact, inputs)
    if isinstance(a, str) and f"stopped after {MAX_OPS} ops" in a:
        return "endless"
    b = outcome("python", artifact, inputs)
    results = a, b
    if isinstance(a, str) or isinstance(b, str):
        assert isinstance(a, str), f"Python only failed: {results}"
        assert isinstance(b, str), f"the interpreter only failed: {results}"
        assert "[WIR9" in a, f"stopped without a code: {a}"
        return "stopped with a code"
    assert len(a) == len(b), f"results differ: {results}"
    assert all(map(same, a, b)), f"results differ: {results}"
    return "ran"


def main(name: str, count: int, seed: int) -> None:
    """Runs all cases and prints their outcomes."""
    artifact, inputs = program_of(name)
    verdicts: Counter[str] = Counter()
    with ExitStack() as stack:
        if name == "collectives":
            stack.enter_context(lonely_group(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        for number in range(count):
            rng = random.Random(f"{seed}:{name}:{number}")
            program, description = corrupt(artifact.program, rng)
            print(f"{number}: {description}", flush=True)
            verdicts[check(dataclasses.replace(artifact, program=program), inputs)] += 1
    print(f"{count} corruptions of {name}: {dict(verdicts)}")


if __name__ == "__main__":
    for program in sys.argv[3:]:
        main(program, int(sys.argv[1]), int(sys.argv[2]))
