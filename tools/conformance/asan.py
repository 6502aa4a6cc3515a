"""C++ libraries under AddressSanitizer: `python -m tools.conformance.asan`.

Builds the small programs of `tests/cpp` and the models of `tests/common/zoo.py` with `-fsanitize=address`.
Calls each twice, and once with an argument less, in a process that has loaded the sanitizer. Then makes the calls
of `asan_cases.py`, which must end as the cases say, and opens damaged library files. `--broken` builds only a
kernel that writes one element past its tensor, which must be detected. Exit status 0 without findings.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from packages.py_wrapper.tests.py_case import Case

import cpp_wrapper
from cpp_wrapper import CppOptions
from cpp_wrapper.settings import Settings
from inductor_frontend import capture
from tests.common.zoo import ZOO
from tests.common.zoo import Case as ZooCase
from tests.cpp.cpp_case import KERNELS, artifact_of, artifact_of_text
from tests.cpp.cpp_programs import CASES
from tools.conformance import asan_cases
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.cache import CacheSettings

_BROKEN = """
func @main(%x: f32[64]) {
  %y = alloc f32[64]
  launch @double(%x, %y, 65)
  return %y
}
"""
ROOT = Path(__file__).parents[2]
"""The repository."""
_CASES, _FILES = "cases", "files"
"""Folders of what is built."""

# Any: arguments of any program
Program = tuple[str, Artifact, tuple[Any, ...], dict[str, Any]]


def programs(first: int = 0, step: int = 1) -> Iterator[Program]:
    """Name, program and arguments of each; with a step, of each one in so many, from the first."""
    makers = [partial(_of_case, case) for case in CASES]
    for name, make in ZOO.items():
        makers += [partial(_of_model, name, make, is_dynamic) for is_dynamic in (False, True)]
    for maker in makers[first::step]:
        yield maker()


def _of_case(case: Case) -> Program:
    return case.name, artifact_of(case), tuple(case.inputs()), {}


def _of_model(name: str, make: Callable[[], ZooCase], is_dynamic: bool) -> Program:
    model = make()
    shapes = model.dynamic if is_dynamic else None
    artifact = capture(model.model, model.args, model.kwargs, dynamic_shapes=shapes)
    kind = "fixed" if shapes is None else "dynamic"
    return f"model_{name}_{kind}", artifact, tuple(model.args), dict(model.kwargs or {})


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (by default the process's); returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.conformance.asan", description=__doc__)
    parser.add_argument("--broken", action="store_true", help="a broken program alone, which must be found")
    parser.add_argument(
        "--cases", action="store_true", help="calls that must be refused, and damaged files, alone"
    )
    parser.add_argument("--run", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.run:
        return _call_all(Path(options.run))
    with tempfile.TemporaryDirectory(prefix="wir_asan_") as text:
        folder = Path(text)
        broken: Program = ("broken", artifact_of_text(KERNELS + _BROKEN), (torch.ones(64),), {})
        chosen = [broken] if options.broken else [] if options.cases else programs()
        count = _build_all(chosen, folder)
        if not options.broken:
            count += _build_cases(folder)
        process = _under_sanitizer(folder)
    print(process.stdout[-4000:], process.stderr[-6000:], sep="\n")
    print(f"{count} programs: {'nothing found' if process.returncode == 0 else 'see above'}")
    return process.returncode


def _build_all(programs: Sequence[Program] | Iterator[Program], folder: Path) -> int:
    """Builds libraries and writes their arguments beside them; returns their number."""
    settings = _settings(folder)
    count = 0
    for name, artifact, args, kwargs in programs:
        cpp_wrapper.build(artifact, folder / f"{name}.so", CppOptions(opt_level=1), settings=settings)
        torch.save((args, kwargs), folder / f"{name}.args")
        print(name, flush=True)
        count += 1
    return count


def _build_cases(folder: Path) -> int:
    """Builds the cases, and the libraries to damage, in folders; returns the number of cases."""
    settings, held = _settings(folder), asan_cases.register()

    def build(artifact: Artifact, path: Path) -> None:
        cpp_wrapper.build(artifact, path, CppOptions(opt_level=1), settings=settings)

    for name in (_CASES, _FILES):
        (folder / name).mkdir()
    count = 0
    for case in asan_cases.cases():
        build(case.artifact(), folder / _CASES / f"{case.name}.so")
        print(case.name, flush=True)
        count += 1
    asan_cases.build_files(folder / _FILES, build)
    held.clear()
    return count


def _settings(folder: Path) -> Settings:
    return sanitizing_settings(folder, ("-fsanitize=address",))


def sanitizing_settings(folder: Path, flags: Sequence[str], jobs: int = 1) -> Settings:
    """Returns settings with a compiler of these flags, and an empty cache in the folder."""
    compiler = folder / "sanitizing-g++"
    words = f"{shutil.which('g++')} {' '.join(flags)} -fno-omit-frame-pointer -g1"
    compiler.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    cache = CacheSettings(
        folder=folder / "cache", fallback=folder / "cache"
    )  # nothing else may take these objects
    return Settings(cache=cache, compiler=str(compiler), jobs=jobs)


def sanitizer_library(name: str) -> str:
    """Returns the path of a library of the compiler."""
    answer = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def _under_sanitizer(folder: Path) -> subprocess.CompletedProcess[str]:
    # The sanitizer looks up the throwing functions of the C++ runtime at start. Python does not free its
    # memory at exit.
    first = [sanitizer_library(name) for name in ("libasan.so", "libstdc++.so.6")]
    env = {"LD_PRELOAD": " ".join(first), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-m", "tools.conformance.asan", "--run", str(folder)]
    return subprocess.run(
        command, env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, check=False
    )


def _call_all(folder: Path) -> int:
    """Calls all libraries in the process with the sanitizer, which ends at the first finding."""
    for path in sorted(folder.glob("*.so")):
        print(f"calls {path.stem}", flush=True)
        program = cpp_wrapper.load(path)
        with torch.no_grad():
            for _ in range(2):
                args, kwargs = torch.load(path.with_suffix(".args"))
                arguments = [
                    x.clone() if isinstance(x, torch.Tensor) else x for x in args
                ]  # which can be resized
                program(*arguments, **kwargs)
            try:
                program.boxed([])
            except Exception as error:
                print(f"  {type(error).__name__}", flush=True)
    return _call_cases(folder) if (folder / _CASES).exists() else 0


def _call_cases(folder: Path) -> int:
    held, wrong = asan_cases.register(), list[str]()
    for case in asan_cases.cases():
        print(f"calls {case.name}", flush=True)
        with torch.no_grad():
            wrong += asan_cases.call_all(case, folder / _CASES / f"{case.name}.so")
    print("opens damaged files", flush=True)
    wrong += asan_cases.damage_all(folder / _FILES)
    held.clear()
    print(*wrong, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
