"""Kernel definitions as typed data.

A definition holds all that a runtime needs to compile and launch: nothing is looked up elsewhere. Its identity is
`content_hash`, a hash over everything but the name.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.types import DType

__all__ = [
    "Access",
    "CppKernel",
    "ForeignKernel",
    "KernelDef",
    "KernelParam",
    "ParamKind",
    "content_hash",
    "runtime_kind",
]


class ParamKind(enum.Enum):
    """How an argument is passed: the address of a tensor's first element, or a number by value."""

    POINTER = "pointer"
    SCALAR = "scalar"


class Access(enum.Enum):
    """What a kernel does through a pointer (`NONE` for scalars).

    `WRITE` promises that the kernel reads nothing that was there before and overwrites its whole extent. A kernel that
    writes only a part (scatter, in-place updates, atomics) or reads first is `READWRITE`, whatever its parameter is
    called.
    """

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READWRITE = "readwrite"

    @property
    def reads(self) -> bool:
        """True where the kernel may read bytes that were there before the launch."""
        return self in (Access.READ, Access.READWRITE)

    @property
    def writes(self) -> bool:
        """True where the kernel may write."""
        return self in (Access.WRITE, Access.READWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParam:
    """One parameter. Text: `read f32* in_ptr0`, `write f32* out_ptr0`, `i64 ks0`.

    `may_alias` names other parameters that may be given the same storage (in-place pairs).
    """

    name: str
    kind: ParamKind
    dtype: DType
    access: Access = Access.NONE
    may_alias: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A host kernel: a complete C++ translation unit with one `extern "C" void entry(...)`.

    `isa` names the instruction sets that the source was vectorised for (`avx2`, `avx512`); empty: generic.
    """

    kind: ClassVar[str] = "cpp"
    name: str
    params: tuple[KernelParam, ...]
    source: str
    entry: str
    isa: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKernel:
    """A kernel of a kind that a plug-in registered: routed by `runtime`, opaque otherwise."""

    kind: ClassVar[str] = "foreign"
    name: str
    params: tuple[KernelParam, ...]
    runtime: str
    payload: str
    """Text that only the runtime understands (base64 where it is binary)."""


KernelDef = CppKernel | ForeignKernel


def runtime_kind(kernel: KernelDef) -> str:
    """The name under which the kernel's `KernelRuntime` is registered."""
    return kernel.runtime if isinstance(kernel, ForeignKernel) else kernel.kind


def content_hash(kernel: KernelDef) -> str:
    """Sha256 (hex) over everything that decides what the kernel does; its name does not."""
    # repr of tuples of strings keeps the parts apart, whatever the names hold
    params = repr([(p.name, p.kind.value, p.dtype.value, p.access.value, p.may_alias) for p in kernel.params])
    parts: tuple[str, ...]
    match kernel:
        case CppKernel():
            parts = ("cpp", params, kernel.source, kernel.entry, repr(kernel.isa))
        case ForeignKernel():
            parts = ("foreign", params, kernel.runtime, kernel.payload)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
