"""Kernels and constants of an emitted Python module.

On disk, these are `kernels.json` with one source file per kernel, and `constants.safetensors`. A module
compiled in memory gets them from its import specification (`ModuleSpec.loader_state`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir.plugins.registry import kernel_runtime
from wrapper_ir.support.files import MappedFile, read_bytes
from wrapper_ir_runtime.kernel_files import TABLE, read_binaries, read_kernels
from wrapper_ir_runtime.kernels import FindRuntime, load_kernels

T_co = TypeVar("T_co", covariant=True)

CONSTANTS = "constants.safetensors"
_NOTHING: Mapping[str, memoryview] = MappingProxyType({})
_NO_HANDLES: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContents:
    """Kernels and constants of a module, in memory.

    Constants are buffers by name; packed constants are live objects (`handles`). `files` are the
    memory-mapped files behind the buffers.
    """

    kernels: Sequence[ir.KernelDef] = ()
    target: ir.Target = field(default_factory=ir.Target)
    constants: Mapping[str, memoryview] = field(default_factory=lambda: _NOTHING)
    handles: Mapping[str, object] = field(default_factory=lambda: _NO_HANDLES)
    find_runtime: FindRuntime = kernel_runtime
    binaries: Sequence[ir.KernelBinary] = ()
    files: Sequence[MappedFile] = ()

    def load_kernels(self) -> dict[str, LoadedKernel]:
        """Loads all kernels; returns them by name. Raises PluginError, and what their runtimes raise."""
        return load_kernels(self.kernels, self.target, self.find_runtime, self.binaries)

    def constant(self, name: str, frombuffer: Callable[..., T_co], dtype: object) -> T_co:
        """Returns a flat tensor over a constant's bytes; raises ExecutionError WIR929 if it has no data."""
        buffer = self.constants.get(name)
        if buffer is None:
            raise ExecutionError(
                "WIR929",
                f"there is no data for constant {name!r}",
                hint=f"{CONSTANTS} must be beside the module",
            )
        with warnings.catch_warnings():
            # Mapped files may be read-only; constants that the program writes are copied by the module.
            warnings.filterwarnings("ignore", message="The given buffer is not writable")
            return frombuffer(buffer, dtype=dtype)

    def handle(self, name: str) -> object:
        """Returns a packed constant; raises ExecutionError WIR929 outside the process that packed it."""
        handle = self.handles.get(name)
        if handle is None:
            raise ExecutionError(
                "WIR929",
                f"constant {name!r} is packed: it exists only in the process that captured it",
                hint="capture the model without packed weights",
            )
        return handle


def open_parts(file: str, spec: ModuleSpec | None) -> ModuleContents:
    """Returns the contents of the module in `file`, whose `__spec__` is `spec`."""
    state: object = None if spec is None else spec.loader_state
    if isinstance(state, ModuleContents):
        return state
    folder = Path(file).parent
    target, kernels = read_kernels(folder) if (folder / TABLE).exists() else (ir.Target(), ())
    constants, files = _read_constants(folder / CONSTANTS)
    return ModuleContents(
        kernels=kernels,
        target=target,
        constants=constants,
        files=files,
        binaries=read_binaries(folder, kernels),
    )


def _read_constants(path: Path) -> tuple[Mapping[str, memoryview], tuple[MappedFile, ...]]:
    """Returns the constants of a safetensors file, and the file if it is memory-mapped.

    Writes to constants are private to this process.
    """
    if not path.exists():
        return _NOTHING, ()
    from wrapper_ir.artifact.file.safetensors import (  # modules without weights need neither
        read_names,
        read_safetensors,
    )

    try:
        read = read_bytes(path)
    except (OSError, ValueError) as error:
        raise ExecutionError("WIR929", f"the constants beside the module cannot be read: {error}") from error
    tensors = read_safetensors(read.data, dict.fromkeys(read_names(read.data), ir.DType.U8))
    buffers = {name: tensor.buffer for name, tensor in tensors.items()}
    return buffers, () if read.file is None else (read.file,)
