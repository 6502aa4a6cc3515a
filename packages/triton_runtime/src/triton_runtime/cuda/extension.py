"""Imports the launcher extension (`launcher.cpp`): the wheel's if it has one, otherwise one built at first
use.

The built library is stored in the namespace `launchers` of the cache on disk, under a hash of its source and
flags. It works with every Python that this package supports.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar, cast

from triton_runtime.cuda.launcher_build import FLAGS, INCLUDED, PREBUILT, SOURCE, compile_command
from triton_runtime.errors import DriverError
from triton_runtime.settings import Settings
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir.plugins.repeating import RepeatedOperator
from wrapper_ir_runtime.cache import open_cache

_MODULE = "wrapper_ir_cuda_launcher"
_LIBRARY = "launcher.so"
_FULL = os.strerror(errno.ENOSPC)
_TIMEOUT = 300.0
_SHOWN_LINES = 12
T = TypeVar("T")


class Hooks(Protocol):
    """Hooks around every launch of a driver's kernels: None, or a function of (kernel, (x, y, z), raw
    stream).

    The launch raises exceptions of hooks.
    """

    enter: Callable[[LoadedKernel, tuple[int, int, int], int], object] | None
    exit: Callable[[LoadedKernel, tuple[int, int, int], int], object] | None


class AddressCheck(Protocol):
    """Compares the addresses of tensors with expected ones."""

    def __call__(self, tensors: list[T], /) -> bool:
        """Returns True if they are equal."""


class Extension(Protocol):
    """The extension module. `launcher/` documents the arguments of its functions."""

    Hooks: Callable[[], Hooks]

    def open_driver(self, addresses: bytes) -> object:
        """Initializes the CUDA driver with the addresses of its functions; raises OSError."""

    def set_torch(self, *parts: object) -> bool:
        """Sets the functions that read tensors; returns True if that needs no call of Python."""

    def facts(self, tensor: object) -> tuple[int, int, int, int]:
        """Address, dtype, device type and device index of a tensor, numbered as in torch."""

    def storage_check(self) -> Callable[..., bool] | None:
        """Returns the check that storages hold all elements of their tensors.

        None if tensors can be read only by calling Python.
        """

    def load(self, *parts: object) -> LoadedKernel:
        """Loads a kernel onto a device."""

    def sequence(
        self,
        kernels: tuple[LoadedKernel, ...],
        values: int,
        constants: tuple[int | float, ...],
        indices: bytes,
    ) -> LoadedKernel:
        """Combines several launches into one call."""

    def addresses(self, positions: bytes, expected: bytes) -> AddressCheck:
        """Returns a check that tensors at these positions have these addresses."""

    def repeated(self, *parts: object) -> RepeatedOperator:
        """Creates an operator that launches recorded work."""

    def new_stream(self, driver: object, functions: bytes, ordinal: int) -> int:
        """Creates a raw stream; raises OSError."""


def load_extension(settings: Settings) -> Extension:
    """Imports the extension; builds it if neither the wheel nor the cache has one.

    Raises DriverError TR501 without a compiler, TR502 if the build fails, TR503 if loading fails; StoreError.
    """
    if PREBUILT.exists():
        return _import(
            PREBUILT, "install the wheel that pip picks for this machine, or build one from the sdist"
        )

    def compile_into(folder: Path) -> None:
        _compile(settings.compiler, folder / _LIBRARY)

    with open_cache(settings.cache).store("launchers").ensure(f"triton {_recipe()}", compile_into) as entry:
        return _import(entry.folder / _LIBRARY, "run `wir cache clear launchers`")


def _recipe() -> str:
    texts = (path.read_text(encoding="utf-8") for path in (SOURCE, *INCLUDED))
    parts = (*texts, *FLAGS, platform.machine())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _compile(compiler: str, output: Path) -> None:
    command = shutil.which(compiler)
    if command is None:
        raise DriverError(
            "TR501",
            f"no C++ compiler: '{compiler}' is not on PATH, and the launcher of CUDA kernels is not built "
            "yet",
            "install g++ (Debian and Ubuntu: `apt-get install g++`), or name a compiler in WRAPPER_IR_CXX",
        )
    words = compile_command(command, output)
    try:
        process = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except subprocess.TimeoutExpired as cause:
        raise DriverError("TR502", f"building the launcher took longer than {_TIMEOUT:g} s") from cause
    if process.returncode != 0:
        if _FULL in process.stderr:
            # the cache retries in another folder
            raise OSError(errno.ENOSPC, _FULL, str(output))
        excerpt = "\n".join(f"  | {line}" for line in process.stderr.splitlines()[:_SHOWN_LINES])
        raise DriverError(
            "TR502",
            f"the compiler refused the launcher (exit status {process.returncode})\n  command: "
            f"{shlex.join(words)}\n{excerpt}",
            "are Python's headers installed (Debian and Ubuntu: `apt-get install python3-dev`)?",
        )


def _import(path: Path, hint: str) -> Extension:
    loader = importlib.machinery.ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_loader(_MODULE, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as cause:
        raise DriverError("TR503", f"the launcher {path} cannot be imported: {cause}", hint) from cause
    # cast: a newly compiled module has no type information
    return cast(Extension, module)
