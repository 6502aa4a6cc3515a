"""Programs that stock torch.compile compiles are not refused: random programs are captured and verified, and
on request compiled.

Usage: `python -m tests.soundness.refusals --seeds FIRST-LAST [--every N]`. Prints one line `SEED OUTCOME` per
program: `equal` for every N-th one, which runs as emitted Python and in the interpreter on all sets of
inputs; `accepted` for the others, which need no C++ compiler; `as stock` if stock torch.compile fails on the
same program and inputs, or differs from eager mode; else the failure, after `WRONG: `. Stock runs only for a
program that fails or differs. The exit status is 1 if one is wrong.

A compiler in `CXX` and `WRAPPER_IR_CXX` that appends `-O0` makes it faster, equally for stock;
`WRAPPER_IR_CACHE_DIR` should then name a separate folder.

Stock fails if torch traces a graph again and finds another range for a data-dependent size: a slice of a
`chunk` that a mask selects from has at most 2 rows in the second trace and at most 1 in the first, and
`ShapeEnv` accepts no wider range in place of a narrower one ("tgt_bound is not a subset of src_bound", in
torch 2.13).
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import py_wrapper
import tools  # noqa: F401 - what the backend cannot compile is an error
from tests.soundness.random_shapes import INPUTS, RandomProgram, random_program
from wrapper_ir import check, ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_runtime.interp import run

# Any in this file: arguments and results of generated functions.
_AS_STOCK = "as stock"


def traced() -> Any:  # Any: torch's patch, a context manager and a decorator
    """Configures Dynamo for the programs: data-dependent sizes do not end a graph."""
    flags = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    return torch._dynamo.config.patch(flags)


class _Lowered(Exception):
    """A program is there; nothing is compiled."""


class _Uncompiled:
    """Raises when it is called: an exception of `compile` would be logged as a fault of the backend."""

    def boxed(self, args: list[Any]) -> tuple[Any, ...]:
        raise _Lowered

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise _Lowered


class _Emitter:
    """Common part of the emitters in this file; none writes text."""

    def emit(self, artifact: Artifact) -> str:
        raise NotImplementedError

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        raise NotImplementedError


class _Probe(_Emitter):
    """Checks the program, and compiles nothing."""

    name = "probe"

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        checked = insert_checks(artifact.program, guarded)
        assert check(checked) == ()
        assert insert_checks(checked, guarded) is checked
        return _Uncompiled()


@dataclass(frozen=True, slots=True)
class _Both:
    """Emitted Python, whose results the interpreter has as well."""

    artifact: Artifact
    python: CompiledProgram

    @property
    def boxed(self) -> Any:
        return self.call

    def call(self, args: list[Any]) -> tuple[Any, ...]:
        copies = copy.deepcopy(args)  # with their strides, and with shared memory
        found = self.python.boxed(args)
        wanted = run(self.artifact, copies, py_wrapper.TORCH_MACHINE)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.python(*args, **kwargs)


class _Compare(_Emitter):
    """Compiles to emitted Python that is compared with the interpreter in each call."""

    name = "compare"

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        return _Both(artifact, py_wrapper.EMITTER.compile(artifact, guarded))


def _refusal(program: RandomProgram) -> Exception | None:
    """Returns the reason why the backend refuses a program, or None."""
    torch._dynamo.reset()
    options: Any = {"emitter": _Probe(), "cache": False}  # an emitter is more than torch foresees
    compiled = torch.compile(program.function(), backend="wrapper_ir", dynamic=True, options=options)
    try:
        compiled(*INPUTS[0])
    except Exception as error:  # in any exception of torch
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, _Lowered):
                return None
            seen = seen.__cause__ or seen.__context__
        return error
    raise AssertionError("nothing was compiled")


def _stock_fails(program: RandomProgram, inputs: Iterable[Sequence[Tensor]]) -> bool:
    torch._dynamo.reset()
    function = program.function()
    compiled = torch.compile(program.function(), backend="inductor", dynamic=True)
    try:
        for args in inputs:
            torch.testing.assert_close(compiled(*args), function(*args))
    except Exception:  # in its own words, or a difference
        return True
    return False


def _difference(program: RandomProgram) -> str:
    """Returns the difference of compiled and interpreted results from eager ones, on any set of inputs.

    `as stock` if torch cannot compile the program for them; '' if they are equal.
    """
    torch._dynamo.reset()
    function = program.function()
    options: Any = {"emitter": _Compare(), "cache": False}  # as above
    compiled = torch.compile(program.function(), backend="wrapper_ir", dynamic=True, options=options)
    for number, args in enumerate(INPUTS):
        try:
            torch.testing.assert_close(compiled(*args), function(*args))
        except Exception as error:  # of torch's tracing, of ours, or a difference
            if _stock_fails(program, INPUTS[: number + 1]):
                return _AS_STOCK
            return f"inputs {number}: {type(error).__name__}: {error}"
    return ""


def outcome(seed: int, *, compare: bool = False) -> str:
    """Returns the outcome of a seed's program; see the module."""
    program = random_program(seed)
    with traced():
        if compare:
            different = _difference(program)
            return f"WRONG: {different}" if different not in ("", _AS_STOCK) else different or "equal"
        why = _refusal(program)
        if why is None:
            return "accepted"
        if _stock_fails(program, INPUTS[:1]):
            return _AS_STOCK
    return f"WRONG: refused: {type(why).__name__}: {why}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.refusals", description=__doc__)
    parser.add_argument("--seeds", required=True, help="FIRST-LAST, both of them included")
    parser.add_argument(
        "--every", type=int, default=1, help="compare results of every so many-th; 0: of none"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, _, last = options.seeds.partition("-")
    kinds: Counter[str] = Counter()
    for seed in range(int(first), int(last) + 1):
        found = outcome(seed, compare=bool(options.every) and seed % options.every == 0)
        print(seed, found.replace("\n", " | ")[:2000], flush=True)
        kinds[found.partition(":")[0]] += 1
    print(", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return int("WRONG" in kinds)


if __name__ == "__main__":
    sys.exit(main())
