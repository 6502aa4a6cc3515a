"""Libraries that one torch builds and others run: `python -m tests.cpp.other_torch build|run FOLDER`, by any
of them.

`build` writes a library of each small program and packages of models, for torch 2.11 and later; `run` calls
all that are there through our loader and through torch's own, and compares. Exit status 0 if all are right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor
from torch import Tensor
from torch.utils._pytree import tree_leaves

import cpp_wrapper
from cpp_wrapper import EmitError
from cpp_wrapper.library.batch import build_libraries
from inductor_frontend import capture
from tests.common.zoo import ZOO
from tests.cpp.cpp_case import FAST, artifact_of, artifact_of_text, stock_run
from tests.cpp.cpp_programs import CASES
from tests.cpp.matmuls import TEXT, differing

OPTIONS = replace(FAST, oldest_torch=(2, 11))
MODELS = ("mlp", "gpt2", "moe", "convnet", "lstm")
MATMULS = "matmuls.so"
# Any in this file: arguments and results of programs


def build(folder: Path) -> None:
    """Writes the libraries, and the arguments and results of models."""
    sources = []
    for case in CASES:
        try:
            sources.append((cpp_wrapper.emit(artifact_of(case), options=OPTIONS), folder / f"{case.name}.so"))
        except EmitError as error:
            print(f"{case.name} is refused: {error.code}")
    sources.append((cpp_wrapper.emit(artifact_of_text(TEXT), options=OPTIONS), folder / MATMULS))
    build_libraries(sources, OPTIONS)
    for name in MODELS:
        model = ZOO[name]()
        artifact = capture(model.model, model.args, model.kwargs, dynamic_shapes=model.dynamic)
        cpp_wrapper.build(artifact, folder / f"{name}.pt2", replace(OPTIONS, opt_level=1))
        with torch.no_grad():
            want = tree_leaves(model.model(*model.args, **(model.kwargs or {})))
        torch.save((model.args, model.kwargs or {}, want), folder / f"{name}.calls")
    print(f"{len(sources)} programs and {len(MODELS)} models by torch {torch.__version__}")


def run(folder: Path) -> int:
    """Returns the number of differences."""
    wrong = [MATMULS for _ in differing(cpp_wrapper.load(folder / MATMULS), 400)]
    wrong += [name for name, found, want in _results(folder) if not _same(found, want)]
    print(f"{len(wrong)} differ with torch {torch.__version__}: {' '.join(wrong)}")
    return len(wrong)


def _results(folder: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    for case in CASES:
        library = folder / f"{case.name}.so"
        if library.exists():
            want = list(case.expected(*case.inputs()))
            yield case.name, list(cpp_wrapper.load(library)(*case.inputs())), want
            yield f"{case.name} (stock)", stock_run(library, case.inputs()), want
    for name in MODELS:
        package = folder / f"{name}.pt2"
        args, kwargs, want = torch.load(folder / f"{name}.calls", weights_only=False)
        with torch.no_grad():
            yield name, tree_leaves(cpp_wrapper.load(package)(*args, **kwargs)), want
            theirs: Any = torch._inductor.aoti_load_package(str(package))
            yield f"{name} (stock)", tree_leaves(theirs(*args, **kwargs)), want


def _same(found: list[Any], want: list[Any]) -> bool:
    return len(found) == len(want) and all(map(_equal, found, want))


def _equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if not isinstance(b, Tensor):
        return bool(a == b)  # torch's runners return numbers as tensors
    return a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True)


if __name__ == "__main__":
    command, into = sys.argv[1], Path(sys.argv[2])
    if command == "build":
        build(into)
    elif run(into):
        sys.exit(1)
