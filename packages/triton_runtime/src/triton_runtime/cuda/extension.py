"""Builds the launcher extension (`launcher.cpp`) at first use, and imports it.

```
<cache>/triton/launcher/<recipe>-<sha256 of the file>.so
```

The recipe is a hash of the source, the flags and the Python that it is for. A file whose content does not fit its name
is never loaded, so a process that was killed while it wrote, or a damaged disk, costs one more build.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from filelock import FileLock, Timeout

from triton_runtime.errors import DriverError
from triton_runtime.settings import Settings
from triton_runtime.store.folder import Folder
from wrapper_ir.protocols import LoadedKernel

__all__ = ["Extension", "Hooks", "load_extension"]

_SOURCE = Path(__file__).with_name("launcher.cpp")
_MODULE = "wrapper_ir_cuda_launcher"
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-w", "-shared")
_TIMEOUT = 300.0
_SHOWN_LINES = 12


class Hooks(Protocol):
    """What is called around every launch of a driver's kernels: None, or a function of (kernel, (x, y, z), raw stream).
    What a hook raises is raised by the launch."""

    enter: Callable[[LoadedKernel, tuple[int, int, int], int], object] | None
    exit: Callable[[LoadedKernel, tuple[int, int, int], int], object] | None


class Extension(Protocol):
    """The extension module. Its functions say in `launcher.cpp` what they take."""

    Hooks: Callable[[], Hooks]

    # Any below: tensors and classes of torch, and the driver's handle, which is opaque
    def open_driver(self, path: str) -> object:
        """Opens the CUDA driver; raises OSError."""
        ...

    def set_torch(self, *parts: Any) -> bool:
        """Says how tensors are read; gives whether that can be done without calling Python."""
        ...

    def facts(self, tensor: Any) -> tuple[int, int, int, int]:
        """Address, dtype, device type and device index of a tensor, as torch numbers them."""
        ...

    def load(self, *parts: Any) -> LoadedKernel:
        """Loads a kernel onto a device."""
        ...

    def sequence(
        self, kernels: tuple[LoadedKernel, ...], values: int, constants: tuple[Any, ...], indices: bytes
    ) -> LoadedKernel:
        """Several launches in one call."""
        ...


def load_extension(settings: Settings) -> Extension:
    """Builds the extension where the cache lacks it, and imports it.

    Raises DriverError: TR501 for no compiler, TR502 where it fails, TR503 where there is no folder to put it.
    """
    recipe = _recipe()
    own, fallback = Folder(settings.cache_dir), Folder(settings.fallback_dir)
    for root in (own, *([fallback] if fallback.is_private() else [])):
        if (path := _find(root, recipe)) is not None:
            return _import(path)
    try:
        return _import(_build(own, recipe, settings))
    except OSError as error:
        problem = error
    warnings.warn(
        f"[TR401] the cache directory {own.path} cannot be written ({problem.strerror or problem}); the launcher is built "
        f"in {fallback.path}. Set WRAPPER_IR_CACHE_DIR to a folder of your own.",
        RuntimeWarning,
        stacklevel=2,
    )
    try:
        fallback.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not fallback.is_private():
            raise PermissionError(f"{fallback.path} is not this user's alone")
        return _import(_build(fallback, recipe, settings))
    except OSError as error:
        raise DriverError(
            "TR503",
            f"there is no folder to build the launcher in: {own.path} ({problem}), {fallback.path} ({error})",
            "set WRAPPER_IR_CACHE_DIR to a folder that can be written",
        ) from error


def _recipe() -> str:
    parts = (_SOURCE.read_text(encoding="utf-8"), *_FLAGS, str(sysconfig.get_config_var("SOABI")))
    return hashlib.sha256("\0".join((*parts, platform.machine())).encode()).hexdigest()[:32]


def _folder(root: Folder) -> Path:
    return root.path / "triton" / "launcher"


def _find(root: Folder, recipe: str) -> Path | None:
    """The built extension; files that do not fit their names are removed."""
    for path in sorted(_folder(root).glob(f"{recipe}-*.so")):
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == path.stem.partition("-")[2]:
                return path
            path.unlink()
        except OSError:
            continue
    return None


def _build(root: Folder, recipe: str, settings: Settings) -> Path:
    """Compiles the extension; one process does, and the others find it. Raises OSError for a folder that cannot be
    written, DriverError TR501 and TR502."""
    root.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / f"{recipe}.lock"):
        if (path := _find(root, recipe)) is not None:
            return path
        with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
            built = Path(work) / "launcher.so"
            _compile(settings.compiler, built)
            target = folder / f"{recipe}-{hashlib.sha256(built.read_bytes()).hexdigest()}.so"
            os.replace(built, target)
        return target


def _alone(path: Path) -> contextlib.AbstractContextManager[object]:
    """Holds a lock; after a long wait goes on without it, at the cost of a second build."""
    lock = FileLock(path)
    try:
        return lock.acquire(timeout=_TIMEOUT)
    except Timeout:
        return contextlib.nullcontext()


def _compile(compiler: str, output: Path) -> None:
    command = shutil.which(compiler)
    if command is None:
        raise DriverError(
            "TR501",
            f"no C++ compiler: '{compiler}' is not on PATH, and the launcher of CUDA kernels is not built yet",
            "install g++ (Debian and Ubuntu: `apt-get install g++`), or name a compiler in WRAPPER_IR_CXX",
        )
    include = f"-I{sysconfig.get_path('include')}"
    words = (command, *_FLAGS, include, str(_SOURCE), "-o", str(output), "-ldl")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as cause:
        raise DriverError("TR502", f"building the launcher took longer than {_TIMEOUT:g} s") from cause
    if done.returncode != 0:
        shown = "\n".join(f"  | {line}" for line in done.stderr.splitlines()[:_SHOWN_LINES])
        raise DriverError(
            "TR502",
            f"the compiler refused the launcher (exit status {done.returncode})\n  command: {shlex.join(words)}\n{shown}",
            "are Python's headers installed (Debian and Ubuntu: `apt-get install python3-dev`)?",
        )


def _import(path: Path) -> Extension:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as cause:
        raise DriverError(
            "TR503", f"the launcher {path} cannot be imported: {cause}", "delete that file"
        ) from cause
    # cast: a module that was just compiled has no type information
    return cast(Extension, module)
