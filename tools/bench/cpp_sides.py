"""One measurement of ahead-of-time C++, in a separate process: `python -m tools.bench.cpp_sides SIDE WHAT ...`.

| command              | effect                                                                                   |
| -------------------- | ---------------------------------------------------------------------------------------- |
| `build MODEL PATH`   | a package of a model, from `ExportedProgram` to file                                     |
| `wheel MODEL PATH`   | the same, with the compiled runtime of a platform wheel                                  |
| `prepare MODEL PATH` | the same, after earlier builds: with the kernels' header precompiled                     |
| `matmuls COUNT`     | a library of a program with that many matmuls, from text to file                         |
| `load PATH`          | opens a package after `import torch`; includes its other imports                         |

Prints numbers by name, as JSON. "user" are seconds of processor time in user mode, of this process and its
compilers; "compiler" those of the part that turns sources into a library.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock


def _user_seconds() -> float:
    """Of this process and of its children that have ended."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@contextmanager
def _measured(numbers: dict[str, float], user: str, wall: str = "") -> Iterator[None]:
    before, start = _user_seconds(), time.perf_counter()
    yield
    numbers[user] = numbers.get(user, 0.0) + _user_seconds() - before
    if wall:
        numbers[wall] = time.perf_counter() - start


def _exported(model: str) -> Any:  # Any: an exported program; torch is imported by the measured parts alone
    import torch

    from tests.common.zoo import ZOO, gpt2

    name, _, layers = model.partition(":")
    case = gpt2(layers=int(layers)) if layers else ZOO[name]()
    with torch.no_grad():
        return torch.export.export(case.model, case.args, dict(case.kwargs or {}))


def _build_ours(program: Any, path: Path, numbers: dict[str, float], is_preparing: bool) -> None:
    import cpp_wrapper
    import inductor_frontend
    from cpp_wrapper.library import build

    compile_library = build.build_library

    def measured(*args: Any, **kwargs: Any) -> Path:
        with _measured(numbers, "compiler"):
            return compile_library(*args, **kwargs)

    args, kwargs = program.example_inputs
    with mock.patch("cpp_wrapper.library.api.build_library", measured):
        options = cpp_wrapper.CppOptions(precompile_after=0) if is_preparing else None
        cpp_wrapper.build(inductor_frontend.capture(program, args, kwargs), path, options)


def _build_theirs(program: Any, path: Path, numbers: dict[str, float], is_preparing: bool) -> None:
    import torch
    from torch._inductor.codecache import AotCodeCompiler

    compile_library = AotCodeCompiler.compile

    def measured(*args: Any, **kwargs: Any) -> Any:
        with _measured(numbers, "compiler"):
            return compile_library(*args, **kwargs)

    with mock.patch.object(AotCodeCompiler, "compile", measured):
        torch._inductor.aoti_compile_and_package(program, package_path=str(path))


def _build_from_wheel(side: str, model: str, path: str) -> dict[str, float]:
    from cpp_wrapper import runtime_build

    folder = Path(os.environ["WRAPPER_IR_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    objects = {"torch": runtime_build.compile_runtime("g++", "torch", folder)}
    with mock.patch.object(runtime_build, "PREBUILT", objects):
        return _build(side, model, path)


def _build(side: str, model: str, path: str, is_preparing: bool = False) -> dict[str, float]:
    """Imports of both sides count, but those of torch and the model."""
    import torch

    program = _exported(model)
    build = {"ours": _build_ours, "theirs": _build_theirs}[side]
    numbers: dict[str, float] = {}
    with torch.no_grad(), _measured(numbers, "user", "wall"):
        build(program, Path(path), numbers, is_preparing)
    return numbers | {"bytes": float(os.path.getsize(path))}


def _matmuls(side: str, count: str) -> dict[str, float]:
    import cpp_wrapper
    from tools.bench.bench_ir_scale import MATMUL
    from wrapper_ir import ir
    from wrapper_ir.artifact import bare_artifact
    from wrapper_ir.builder import ProgramBuilder, tensor_type
    from wrapper_ir_passes.cleanup.derive_frees import derive_frees

    assert side == "ours"
    builder = ProgramBuilder()
    main = builder.function("main")
    type = tensor_type(ir.DType.F32, (16, 16))
    w = main.param("w", type)
    x = w
    for number in range(int(count)):
        buffer = main.alloc(f"buf{number}", type)
        main.call(MATMUL, (x, w), (("out", buffer),))
        x = buffer
    main.ret((x,))
    artifact = bare_artifact(derive_frees(builder.finish()))
    numbers: dict[str, float] = {}
    with _measured(numbers, "user", "wall"):
        cpp_wrapper.build(artifact, Path(os.environ["WRAPPER_IR_CACHE_DIR"]) / "matmuls.so")
    return numbers


def _load(side: str, path: str) -> dict[str, float]:
    import torch

    numbers: dict[str, float] = {}
    with _measured(numbers, "user", "wall"):
        if side == "ours":
            import cpp_wrapper

            cpp_wrapper.load(path)
        else:
            import torch._inductor

            torch._inductor.aoti_load_package(path)
    return numbers


_PARTS: dict[str, Callable[..., dict[str, float]]] = {
    "build": _build,
    "wheel": _build_from_wheel,
    "prepare": partial(_build, is_preparing=True),
    "matmuls": _matmuls,
    "load": _load,
}


def main(argv: list[str]) -> None:
    """Measures, and prints JSON."""
    side, what, *rest = argv
    print(json.dumps(_PARTS[what](side, *rest)))


if __name__ == "__main__":
    main(sys.argv[1:])
