"""Compiles the C++ drivers: each opens a model with one runtime, and answers to the commands of `side.h`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import cpp_wrapper
import wrapper_ir_native

_HERE = Path(__file__).parent
_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True, slots=True)
class Parts:
    """Folders of headers, libraries and other flags of a driver; `folders` are searched for libraries at run time."""

    headers: Sequence[Path] = ()
    libraries: Sequence[Path] = ()
    folders: Sequence[Path] = ()
    flags: Sequence[str] = ()


def _onnxruntime(packages: Path) -> Parts:
    folder = packages / "onnxruntime" / "capi"
    (library,) = folder.glob("libonnxruntime.so.1.*")
    name = folder / "libonnxruntime.so.1"  # the name that the library itself has, which the wheel lacks
    if not name.exists():
        name.symlink_to(library.name)
    return Parts(libraries=(name,), folders=(folder,))


def _openvino(packages: Path) -> Parts:
    folder = packages / "openvino" / "libs"
    return Parts((packages / "openvino" / "include",), tuple(folder.glob("libopenvino_c.so.*")), (folder,))


def _executorch(packages: Path) -> Parts:
    root = packages / "executorch"
    parts = ("", "_kernels_optimized", "_kernels_quantized", "_backend_xnnpack", "_threadpool")
    include = root / "include"
    return Parts(
        (include, include / "executorch/runtime/core/portable_type/c10"),
        tuple(root / "lib" / f"libexecutorch{part}.so" for part in parts),
        (root / "lib",),
        ("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
    )


def _torch(*headers: Path) -> Parts:
    folder = _TORCH / "lib"
    return Parts(headers, tuple(folder / name for name in ("libtorch_cpu.so", "libc10.so")), (folder,))


def _libtorch(packages: Path) -> Parts:
    return _torch(Path(cpp_wrapper.cmake_prefix_path()) / "include")


def _native(packages: Path) -> Parts:
    return Parts((Path(wrapper_ir_native.include_path()),))


def _aotinductor(packages: Path) -> Parts:
    return _torch(_TORCH / "include", _TORCH / "include/torch/csrc/api/include")


DRIVERS: Mapping[str, Callable[[Path], Parts]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "executorch": _executorch,
    "aotinductor": _aotinductor,
    "libtorch": _libtorch,
    "native": _native,
}


TOGETHER = ("native", "libtorch", "aotinductor", "executorch")
"""Sides that `together.cpp` holds in one process."""


def compile_driver(name: str, packages: Path, folder: Path) -> Path:
    """Compiles a driver into `folder`, unless it is newer than its sources; returns its path."""
    target = folder / name
    if _is_newer(target, (name,)):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    parts = DRIVERS[name](packages)
    _run_compiler([_HERE / f"{name}.cpp", "-o", target, *_compiled(parts), *_linked(parts)])
    return target


def compile_together(packages: Path, folder: Path) -> Path:
    """Compiles the program of several sides into `folder`, as `compile_driver`."""
    target = folder / "together"
    if _is_newer(target, ("together", *TOGETHER)):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    parts = {name: DRIVERS[name](packages) for name in TOGETHER}
    objects = list[Path]()
    for name, part in parts.items():
        objects.append(folder / f"{name}.o")
        own = ("-c", f"-DOPEN_SIDE=open_{name}", _HERE / f"{name}.cpp", "-o", objects[-1])
        _run_compiler([*own, *_compiled(part)])
    libraries = [word for part in parts.values() for word in _linked(part)]
    _run_compiler([_HERE / "together.cpp", "-o", target, *objects, *dict.fromkeys(libraries)])
    return target


def _is_newer(target: Path, names: Sequence[str]) -> bool:
    sources = (*(_HERE / f"{name}.cpp" for name in names), _HERE / "side.h")
    return target.is_file() and target.stat().st_mtime > max(file.stat().st_mtime for file in sources)


def _compiled(parts: Parts) -> Sequence[str | Path]:
    return [*parts.flags, *(word for header in parts.headers for word in ("-isystem", header))]


def _linked(parts: Parts) -> Sequence[str | Path]:
    folders = [f"-Wl,{option},{path}" for path in parts.folders for option in ("-rpath", "-rpath-link")]
    return ["-Wl,--no-as-needed", *parts.libraries, *folders, "-ldl"]


def _run_compiler(words: Sequence[str | Path]) -> None:
    command = ["g++", "-std=c++20", "-O2", "-pthread", *words]
    subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})
