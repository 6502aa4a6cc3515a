"""Native libraries under two sanitizers: `python -m tools.conformance.native_asan`.

Builds with `-fsanitize=address,undefined` the small programs of `tests/cpp` and the models of
`tests/common/zoo.py`, as captured and with packed weights and planned memory, and `--random` programs of the
generator, many in one build. Calls each with its inputs, then with arguments that are missing, empty,
of size one, and of another type: these must be right or raise an error with a code. `--only models` or `--only
random` builds a part; `--first 2 --step 16` is the third part of 16. Prints findings; exits with 0 if there are none.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import cpp_wrapper
from cpp_wrapper import CppOptions, EmitError
from cpp_wrapper.library.batch import build_libraries
from cpp_wrapper.settings import Settings
from cpp_wrapper.sources.program import Sources
from py_wrapper import TORCH_MACHINE
from tests.soundness.flat_inputs import flat_inputs
from tools.conformance.asan import ROOT, programs, sanitizer_library, sanitizing_settings
from tools.conformance.random_operators import random_operators
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing import RandomOptions, random_artifact

_FLAGS = ("-fsanitize=address,undefined", "-fsanitize-recover=all", "-fno-sanitize=vptr")
_PASSES = "pack-constants,use-out-variants{runtime=native},plan-memory"
_FINDING = re.compile(r"runtime error:|ERROR: AddressSanitizer|^wrong:|^no code:|^ended:", re.MULTILINE)
_BATCH, _PROCESS = 20, 100
"""Random programs of one build, and libraries of one process."""

# Any in this file: arguments of any program
Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Library:
    """A library to call: its name, sources, and the calls of it. The results of the first must be `want`."""

    name: str
    sources: Sources
    calls: tuple[Call, ...]
    want: Any = None
    is_flat: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.native_asan", description=__doc__)
    parser.add_argument("--random", type=int, default=2000, help="number of random programs")
    parser.add_argument("--first", type=int, default=0, help="the first program")
    parser.add_argument("--step", type=int, default=1, help="each one in so many, for several processes")
    parser.add_argument("--only", choices=("models", "random"), help="a part alone")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers and processes"
    )
    parser.add_argument("--run", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.run:
        return _call_all(Path(options.run))
    with tempfile.TemporaryDirectory(prefix="wir_native_asan_") as text:
        folder, count, findings = Path(text), 0, 0
        settings = sanitizing_settings(folder, _FLAGS, options.jobs)
        if options.only != "random":
            models = _models(options.first, options.step)
            count, findings = _check(models, folder / "models", settings, options.jobs, 1)
        if options.only != "models":
            seeds = range(options.first, options.first + options.random * options.step, options.step)
            more = _check(map(_random, seeds), folder / "random", settings, options.jobs, _BATCH)
            count, findings = count + more[0], findings + more[1]
    print(f"{count} libraries: {findings or 'no'} findings")
    return 1 if findings else 0


# --- what is built


def _models(first: int, step: int) -> Iterator[_Library]:
    for name, artifact, args, kwargs in programs(first, step):
        if not name.startswith("model_"):
            if (sources := _emitted(artifact)) is not None:
                yield _Library(name, sources, tuple(_edges((args, kwargs))))
            continue
        for suffix, one in (("", artifact), ("_packed", run_on_artifact(artifact, _PASSES))):
            if (sources := _emitted(one)) is not None:
                want = tree_leaves(run(artifact, _leaves(artifact, args, kwargs), TORCH_MACHINE, _QUIET))
                yield _Library(name + suffix, sources, tuple(_edges((args, kwargs))), want)


_QUIET = InterpOptions(debug=lambda op, values: None)


def _leaves(artifact: Artifact, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    leaves = tree_leaves((args, kwargs))
    return [_copy(leaves[at]) for at in artifact.signature.params]


def _random(seed: int) -> _Library | None:
    rng = random.Random(seed)
    artifact = random_artifact(rng, rng.randrange(4, 30), RandomOptions(executable=True))
    if seed % 2 == 1:
        artifact = run_on_artifact(artifact, "plan-memory")
    sources = _emitted(artifact)
    if sources is None:
        return None
    first = flat_inputs(seed)
    calls: list[Call] = [(tuple(first), {})] * 2
    for rows in (2, 1, 0):
        calls.append(((torch.ones(rows, 8), *first[1:]), {}))
    for number in (0, -1, 1 << 40, (1 << 63) - 1):
        calls.append(((*first[:2], number, *first[3:]), {}))
    calls.append(((*first[:4], torch.tensor(False)), {}))
    calls += list(_edges((tuple(first), {})))[1:]
    return _Library(f"random_{seed}", sources, tuple(calls), _wanted(artifact, first), is_flat=True)


def _wanted(artifact: Artifact, inputs: Sequence[Any]) -> Any:
    """Returns the results of the interpreter; None for programs of random numbers, and those that fail."""
    if any(extern.name == "aten::normal_" for extern in artifact.program.externs):
        return None
    try:
        return list(run(artifact, [_copy(x) for x in inputs], TORCH_MACHINE, _QUIET))
    except Exception:
        return None


def _emitted(artifact: Artifact) -> Sources | None:
    """Returns the sources of a native library; None if the runtime lacks what the program needs."""
    try:
        return cpp_wrapper.emit(artifact, options=_options())
    except EmitError:
        return None


def _options() -> CppOptions:
    return CppOptions(runtime="native", opt_level=1, operators=random_operators())


def _edges(call: Call) -> Iterator[Call]:
    """Returns a call, then calls with one tensor empty, of one row, of another type, strided, and missing."""
    yield call
    leaves, spec = tree_flatten(call)
    changes: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda x: x[:0] if x.dim() else x.reshape(1),
        lambda x: x[:1] if x.dim() else x.reshape(1, 1),
        lambda x: x.double() if x.dtype != torch.float64 else x.float(),
        lambda x: torch.stack((x, x), -1)[..., 0],
        lambda x: torch.full_like(x, -1),
        lambda x: torch.full_like(x, 1 << 30 if x.dtype in (torch.int64, torch.int32) else 1),
        lambda x: None,
    )
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            for change in changes:
                yield tree_unflatten([*leaves[:at], change(leaf), *leaves[at + 1 :]], spec)


# --- builds and processes


def _check(
    libraries: Iterator[_Library | None], folder: Path, settings: Settings, jobs: int, batch: int
) -> tuple[int, int]:
    """Builds and calls libraries. Returns their number, and the number of findings."""
    folder.mkdir()
    count = findings = refused = 0
    with ThreadPoolExecutor(jobs) as pool:
        checks: list[Future[tuple[int, str]]] = []
        part: list[_Library] = []
        for library in libraries:
            if library is None:
                refused += 1
                continue
            part.append(library)
            if len(part) == _PROCESS:
                checks.append(pool.submit(_build_and_call, part, folder / str(len(checks)), settings, batch))
                part = []
        if part:
            checks.append(pool.submit(_build_and_call, part, folder / str(len(checks)), settings, batch))
        for check in checks:
            number, text = check.result()
            count += number
            findings += len(_FINDING.findall(text))
            print(text if _FINDING.search(text) else f"{folder.name}: {count} are clean", flush=True)
    print(f"{folder.name}: {count} libraries, {refused} programs that the native runtime refuses", flush=True)
    return count, findings


def _build_and_call(
    part: Sequence[_Library], folder: Path, settings: Settings, batch: int
) -> tuple[int, str]:
    folder.mkdir()
    for start in range(0, len(part), batch):
        few = part[start : start + batch]
        build_libraries([(one.sources, folder / f"{one.name}.so") for one in few], _options(), settings)
    for one in part:
        torch.save((one.calls, one.want, one.is_flat), folder / f"{one.name}.args")
    first = [sanitizer_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")]
    # Stacks that GCC 13 moves to the heap are aligned to 32 bytes, and stores of 64 bytes to them fail.
    asan = ("detect_leaks=0", "detect_stack_use_after_return=0", "halt_on_error=0")
    env = {
        "LD_PRELOAD": " ".join(first),
        "ASAN_OPTIONS": ":".join((*asan, "allocator_may_return_null=1")),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "tools.conformance.native_asan", "--run", str(folder)]
    process = subprocess.run(
        command, env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    ended = "" if process.returncode == 0 else f"ended: with status {process.returncode}\n"
    return len(part), f"{process.stderr}{ended}"


# --- the process with the sanitizer


def _call_all(folder: Path) -> int:
    for path in sorted(folder.glob("*.so")):
        print(f"calls {path.stem}", file=sys.stderr, flush=True)  # between the findings
        calls, want, is_flat = torch.load(path.with_suffix(".args"), weights_only=False)
        program = cpp_wrapper.load(path)
        with torch.no_grad():
            for number, call in enumerate(calls):
                found = _call(program, call, want if number == 0 else None, is_flat)
                if found:
                    print(f"{found}\n  in call {number} of {path.stem}", file=sys.stderr, flush=True)
    return 0


def _call(program: Any, call: Call, want: Any, is_flat: bool) -> str:
    """Calls a program; returns a finding, or an empty text."""
    leaves, spec = tree_flatten(call)
    args, kwargs = tree_unflatten([_copy(leaf) for leaf in leaves], spec)
    try:
        found = program.boxed(list(args)) if is_flat else program(*args, **kwargs)
    except Exception as error:
        if not re.match(r"\[[A-Z]{3}\d{3}\]", str(error)):
            return f"no code: {''.join(traceback.format_exception(error))}"
        return "" if want is None else f"wrong: {error}"
    if want is not None:
        try:
            torch.testing.assert_close(tree_leaves(found), want, rtol=1e-3, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            return f"wrong: {error}"
    return ""


def _copy(value: Any) -> Any:
    """Returns a copy that a program may write and resize, with the same strides."""
    return value.clone() if isinstance(value, torch.Tensor) else value


if __name__ == "__main__":
    sys.exit(main())
