"""The artifact: a program with its constants and its calling convention, in memory.

`wrapper_ir.artifact.file` writes and reads it as a `.wir` file.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wrapper_ir import ir
from wrapper_ir.errors import ArtifactError
from wrapper_ir.expr import as_int
from wrapper_ir.support.files import MappedFile

if TYPE_CHECKING:
    from wrapper_ir.analysis.memo import Analyses


@dataclass(frozen=True, slots=True, eq=False)
class TensorData:
    """The bytes of one constant, or of a storage of constants; `buffer` covers their layouts' extents.

    Bytes are little-endian elements of `dtype`. The buffer may be a read-only view of memory with another
    owner (a mapped file, a live tensor), which it keeps alive. `file` is the file that the buffer is mapped
    from, if any.
    """

    dtype: ir.DType
    buffer: memoryview
    file: MappedFile | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.buffer.nbytes

    def sha256(self) -> str:
        """Returns the hash of the bytes (hex)."""
        return hashlib.sha256(self.buffer).hexdigest()


def memory_of(address: int, nbytes: int, owner: object) -> memoryview:
    """Returns a view of `nbytes` bytes at an address, which keeps `owner` alive."""
    if nbytes == 0:
        return memoryview(b"")
    memory = (ctypes.c_char * nbytes).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]  # the array does not own its bytes; this keeps them
    return memoryview(memory).cast("B")


def window_of(data: TensorData, constant: ir.Constant) -> TensorData:
    """Returns the bytes of `constant` as a view of its storage's; `data` itself if it shares no storage."""
    value = constant.value
    if not constant.storage or not ir.is_tensor(value):
        return data
    size = as_int(ir.extent_bytes(value.type))
    if size is None:
        return data
    start = max(constant.offset, 0)  # the program may be unverified
    return TensorData(value.type.dtype, data.buffer.cast("B")[start : start + size], data.file)


_NOTHING: Mapping[str, TensorData] = MappingProxyType({})
_NO_HANDLES: Mapping[str, Any] = MappingProxyType({})  # Any: as in `Artifact`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Artifact:
    """A program with its constants, its calling convention and free-form metadata.

    - `constants`: bytes by `Constant.data_name`, the name of the constant or of the storage that it shares.
    - `handles`: opaque constants by name. They are live objects of this process: the artifact runs, but
      `save` refuses it.
    - `tuning`: results of tuning as JSON, by content hash of the kernel.
    - `metadata`: facts for the reader (versions, the model's name) as JSON, by key.
    - `binaries`: kernels compiled ahead of time (`compile_ahead`). A runtime uses those that its compiler
      would compile with the same key, and compiles the others.
    - `extensions`: texts of other packages by file name (letters, digits, `_`, `-`, `.`). Readers preserve
      unknown ones.
    """

    program: ir.Program
    signature: ir.Signature
    constants: Mapping[str, TensorData] = field(default_factory=lambda: _NOTHING)
    handles: Mapping[str, Any] = field(default_factory=lambda: _NO_HANDLES)  # Any: a tensor library's objects
    tuning: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    binaries: tuple[ir.KernelBinary, ...] = ()
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def mapped_files(self) -> tuple[MappedFile, ...]:
        """Returns the files that immutable constants of the CPU are mapped from.

        Loading copies constants that the program writes, and constants of other devices.
        """
        files: dict[MappedFile, None] = {}
        for constant in self.program.constants:
            data, value = self.constants.get(constant.data_name), constant.value
            on_host = ir.is_tensor(value) and value.type.device.type == "cpu"
            if data is not None and data.file is not None and on_host and not constant.mutable:
                files[data.file] = None
        return tuple(files)

    def data_of(self, constant: ir.Constant) -> TensorData | None:
        """Returns the bytes of one constant, or None.

        If it shares a storage, they are a window of it, truncated if the storage is too short.
        """
        data = self.constants.get(constant.data_name)
        return None if data is None else window_of(data, constant)

    def check_portable(self) -> None:
        """Raises ArtifactError WIR711 if a constant exists only in this process."""
        for constant in self.program.constants:
            name, type = constant.value.name, constant.value.type
            if isinstance(type, ir.OpaqueType):
                raise ArtifactError(
                    "WIR711",
                    f"constant %{name}, {type.detail}, is packed for this machine and cannot be stored",
                    hint="capture the model without packed weights",
                )


def bare_artifact(
    program: ir.Program, constants: Mapping[str, TensorData] = _NOTHING, analyses: Analyses | None = None
) -> Artifact:
    """Returns an artifact of a program without a model.

    A call passes `main`'s parameters one by one and returns `main`'s results as a tuple. `constants` is as in
    `Artifact`.
    """
    # Imported here, because analyses are a layer above the artifact.
    from wrapper_ir.analysis.memo import Analyses
    from wrapper_ir.analysis.random import random_devices

    params = program.main.params
    memo = Analyses.of(program, analyses)
    changed = memo.summary(program.main.name).written_params
    names = tuple(p.value.name for p in params)
    match program.main.body:
        case (*_, ir.Return(values=values)):
            count = len(values)
        case _:
            count = 0
    leaf = ir.TreeSpec(kind=ir.TreeKind.LEAF)
    arguments = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf,) * len(names))
    signature = ir.Signature(
        inputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(arguments, ir.TreeSpec(kind=ir.TreeKind.DICT))),
        params=tuple(range(len(names))),
        outputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf,) * count),
        bindings=tuple(ir.ResultOutput(index=i) for i in range(count)),
        names=names,
        written=tuple(p for p in sorted(changed) if params[p].ownership is ir.Ownership.BORROWED),
        random=tuple(ir.RandomState(device=device) for device in memo.get(random_devices)),
    )
    return Artifact(program=program, signature=signature, constants=constants)
