"""Corrupts one real program many times; run by `test_soundness.py` in a process of its own.

Usage: `python tests/soundness_worker.py MODEL COUNT SEED`. Each corrupted program is refused by the verifier with a
code, or runs in the interpreter and in emitted Python: both give the same results, or both stop with an error.
Prints the case before running it, so that a crash names its corruption.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import inductor_frontend
import py_wrapper
from tests.compare import clone_tree
from tests.zoo import ZOO
from wrapper_ir import verify
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError
from wrapper_ir.interp import InterpOptions, run
from wrapper_ir.testing.corrupt import corrupt

PATTERN = 0x7B


def flat_inputs(name: str) -> list[Any]:  # Any: tensors and numbers
    case = ZOO[name]()
    return [*case.args, *(case.kwargs or {}).values()]


def outcome(kind: str, artifact: Artifact, inputs: list[Any]) -> tuple[Any, ...] | str:
    """The results, or the name of the error that stopped the run."""
    try:
        if kind == "interpreter":
            return run(artifact, inputs, py_wrapper.TORCH_MACHINE, InterpOptions(poison=PATTERN))
        compiled = py_wrapper.compile(artifact, py_wrapper.PyOptions(poison=PATTERN))
        return tuple(compiled.boxed(inputs))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


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
    """What became of one corrupted program; raises AssertionError where it is unsound."""
    try:
        verify(artifact.program)
    except VerificationError as error:
        assert error.code.startswith("WIR0"), error
        return "refused"
    results = [outcome(kind, artifact, clone_tree(inputs)) for kind in ("interpreter", "python")]
    a, b = results
    if isinstance(a, str) or isinstance(b, str):
        assert isinstance(a, str), f"Python only failed: {results}"
        assert isinstance(b, str), f"the interpreter only failed: {results}"
        assert "[WIR9" in a, f"stopped without a code: {a}"
        return "stopped with a code"
    assert len(a) == len(b), f"results differ: {results}"
    assert all(map(same, a, b)), f"results differ: {results}"
    return "ran"


def main(name: str, count: int, seed: int) -> None:
    """Runs all cases and prints what became of them."""
    case = ZOO[name]()
    artifact = inductor_frontend.capture(case.model, case.args, case.kwargs)
    inputs = flat_inputs(name)
    verdicts: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed}:{name}:{number}")
        program, description = corrupt(artifact.program, rng)
        print(f"{number}: {description}", flush=True)
        verdicts[check(dataclasses.replace(artifact, program=program), inputs)] += 1
    print(f"{count} corruptions of {name}: {dict(verdicts)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
