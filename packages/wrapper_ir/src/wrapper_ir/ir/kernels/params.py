"""Parameters of kernels, accesses through them, and external requirements of a kernel's source."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.types import DType


class ParamKind(enum.Enum):
    """Passing convention of an argument: the address of a tensor's first element, a number by value, or a
    tensor descriptor, with which a GPU copies blocks."""

    POINTER = "pointer"
    SCALAR = "scalar"
    DESCRIPTOR = "descriptor"

    @property
    def takes_tensor(self) -> bool:
        """Returns whether the launch passes a tensor."""
        return self is not ParamKind.SCALAR


class Access(enum.Enum):
    """Access of a kernel through a pointer (`NONE` for scalars).

    `WRITE` promises that the kernel reads no earlier contents and overwrites its whole extent. A kernel that
    writes only a part (scatter, in-place updates, atomics) or reads first is `READWRITE`, whatever its
    parameter's name suggests.
    """

    NONE = "none"
    READ = "read"
    WRITE = "write"
    READWRITE = "readwrite"

    @property
    def reads(self) -> bool:
        """Returns whether the kernel may read contents from before the launch."""
        return self in (Access.READ, Access.READWRITE)

    @property
    def writes(self) -> bool:
        """Returns whether the kernel may write."""
        return self in (Access.WRITE, Access.READWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParam:
    """One parameter of a kernel.

    - `may_alias`: parameters whose arguments may start at the same byte (in-place pairs). For each element,
      the kernel reads through one parameter before it writes through the other.
    - `may_overlap`: parameters whose arguments may overlap at any offset. The source keeps the order of
      accesses, so it may read its own writes.
    - `divisible`: the compiled code may assume that the address in bytes, or the number, is a multiple of
      this.
    - `block`: block sizes of a descriptor, over the kernel's meta-parameters.

    Text: `read f32* in_ptr0`, `write f32* out_ptr0 divisible(16)`, `i64 ks0`,
    `read f16[] a_desc block(BLOCK_M, 64)`.
    """

    syntax: ClassVar[str] = (
        "<{access} >{dtype}{kind} {name:name}< may_alias({may_alias:name})>< may_overlap({may_overlap:name})>"
        "< divisible({divisible})>< block({block})>"
    )

    name: str
    kind: ParamKind
    dtype: DType
    access: Access = Access.NONE
    may_alias: tuple[str, ...] = ()
    may_overlap: tuple[str, ...] = ()
    divisible: int = 1
    block: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelAccess:
    """Positions of a kernel's read and written parameters, and the number of its parameters."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    count: int

    @staticmethod
    def of(params: Sequence[KernelParam]) -> KernelAccess:
        """Returns the accesses that the parameters declare."""
        reads = tuple(i for i, p in enumerate(params) if p.access.reads)
        writes = tuple(i for i, p in enumerate(params) if p.access.writes)
        return KernelAccess(reads, writes, len(params))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A header (`torch/csrc/inductor/cpp_prefix.h`) or a module (`torch._inductor.runtime.triton_helpers`).

    `origin` is its distribution with the version, `sha256` the hash of its text (hex). Both are those that
    the source was generated for, and empty if unknown. The compiler's own headers and modules (the standard
    library, `triton`) are not listed.

    Text: `"torch/csrc/inductor/cpp_prefix.h" of "torch 2.13.0" sha256 "3f..."`.
    """

    syntax: ClassVar[str] = "{name}< of {origin}>< sha256 {sha256}>"

    name: str
    origin: str = ""
    sha256: str = ""
