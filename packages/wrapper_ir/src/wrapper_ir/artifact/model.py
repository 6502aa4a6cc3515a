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
from wrapper_ir.expr import Int
from wrapper_ir.support.files import MappedFile

if TYPE_CHECKING:
    from wrapper_ir.analysis.memo import Analyses


@dataclass(frozen=True, slots=True, eq=False)
class TensorData:
    """The raw bytes under one constant, or under all constants of one storage: `buffer` holds at least the extents of
    their layouts.

    Bytes are little-endian elements of `dtype`. The buffer may be a view of memory with another owner (a mapped file,
    a live tensor), which it keeps alive; it is never written through. `file` is the file that the buffer is mapped
    from, where it is.
    """

    dtype: ir.DType
    buffer: memoryview
    file: MappedFile | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.buffer.nbytes

    def sha256(self) -> str:
        """Hash of the bytes, hex."""
        return hashlib.sha256(self.buffer).hexdigest()


def memory_of(address: int, nbytes: int, owner: object) -> memoryview:
    """The `nbytes` bytes at an address, for a `TensorData`: not a copy, and `owner` lives as long as they do."""
    if nbytes == 0:
        return memoryview(b"")
    memory = (ctypes.c_char * nbytes).from_address(address)
    memory._owner = owner  # type: ignore[attr-defined]  # the array does not own its bytes; this keeps them
    return memoryview(memory).cast("B")


def window_of(data: TensorData, constant: ir.Constant) -> TensorData:
    """The bytes of `constant` in those of the storage that it names, as a view; `data` itself where it names none."""
    type = constant.value.type
    size = ir.extent_bytes(type) if constant.storage and isinstance(type, ir.TensorType) else None
    if not isinstance(size, Int) or not isinstance(type, ir.TensorType):
        return data
    start = max(constant.offset, 0)  # unverified programs reach this, too
    return TensorData(type.dtype, data.buffer.cast("B")[start : start + size.value], data.file)


_NOTHING: Mapping[str, TensorData] = MappingProxyType({})
_NO_HANDLES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Artifact:
    """A program with its constants, its calling convention and free-form metadata.

    - `constants`: bytes by `Constant.data_name`, which is the storage where a constant names one.
    - `handles`: packed constants by name. They are live objects of this process: the artifact runs, but `save` refuses it.
    - `tuning`: tuning records as JSON, by content hash of the kernel.
    - `metadata`: facts for a reader (versions, the model's name) as JSON, by key.
    - `binaries`: kernels compiled ahead (`compile_ahead`). A runtime takes those that its compiler would make the same way,
      and compiles the others.
    - `extensions`: texts of other packages by file name (letters, digits, `_`, `-`, `.`). Readers that do not know one keep
      it.
    """

    program: ir.Program
    signature: ir.Signature
    constants: Mapping[str, TensorData] = field(default_factory=lambda: _NOTHING)
    handles: Mapping[str, Any] = field(
        default_factory=lambda: _NO_HANDLES
    )  # Any: a tensor library's own objects
    tuning: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    binaries: tuple[ir.KernelBinary, ...] = ()
    extensions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def mapped_files(self) -> tuple[MappedFile, ...]:
        """The files that a running program reads: those that constants of the CPU are mapped from. Constants that the
        program writes, or that lie on a device, were copied when they were loaded."""
        found: dict[MappedFile, None] = {}
        for constant in self.program.constants:
            data, type = self.constants.get(constant.data_name), constant.value.type
            on_host = isinstance(type, ir.TensorType) and type.device.type == "cpu"
            if data is not None and data.file is not None and on_host and not constant.mutable:
                found[data.file] = None
        return tuple(found)

    def data_of(self, constant: ir.Constant) -> TensorData | None:
        """The bytes under one constant: a window where it shares storage, and shorter than it needs where that storage
        is; None where there are none."""
        data, type = self.constants.get(constant.data_name), constant.value.type
        return window_of(data, constant) if data is not None and isinstance(type, ir.TensorType) else data

    def check_portable(self) -> None:
        """Raises ArtifactError WIR711 where a constant exists in this process only."""
        for constant in self.program.constants:
            type = constant.value.type
            if isinstance(type, ir.OpaqueType):
                raise ArtifactError(
                    "WIR711",
                    f"constant %{constant.value.name}, {type.detail}, is packed for this machine and cannot be stored",
                    hint="capture the model without packed weights",
                )


def bare_artifact(
    program: ir.Program, constants: Mapping[str, TensorData] = _NOTHING, analyses: Analyses | None = None
) -> Artifact:
    """An artifact of a program without a model: a call takes `main`'s parameters one by one and returns
    `main`'s results as a tuple. `constants` holds their data as in `Artifact`."""
    # Imported here: what a call changes is known from the effects, a layer below.
    from wrapper_ir.analysis.memo import Analyses
    from wrapper_ir.analysis.random import random_devices

    params = program.main.params
    known = Analyses.of(program, analyses)
    changed = known.summary(program.main.name).written_params
    last = program.main.body[-1] if program.main.body else None
    names = tuple(p.value.name for p in params)
    count = len(last.values) if isinstance(last, ir.Return) else 0
    leaf = ir.TreeSpec(kind=ir.TreeKind.LEAF)
    arguments = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf,) * len(names))
    signature = ir.Signature(
        inputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(arguments, ir.TreeSpec(kind=ir.TreeKind.DICT))),
        params=tuple(range(len(names))),
        outputs=ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(leaf,) * count),
        bindings=tuple(ir.ResultOutput(index=i) for i in range(count)),
        names=names,
        written=tuple(p for p in sorted(changed) if params[p].ownership is ir.Ownership.BORROWED),
        random=tuple(ir.RandomState(device=device) for device in known.get(random_devices)),
    )
    return Artifact(program=program, signature=signature, constants=constants)
