"""What all kinds of kernels share: parameters, what a kernel does through them, and what its source takes from elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr
from wrapper_ir.ir.types import DType


class ParamKind(enum.Enum):
    """How an argument is passed: the address of a tensor's first element, a number by value, or a descriptor of a tensor
    by which a GPU copies blocks of it."""

    POINTER = "pointer"
    SCALAR = "scalar"
    DESCRIPTOR = "descriptor"

    @property
    def takes_tensor(self) -> bool:
        """True where a launch is given a tensor."""
        return self is not ParamKind.SCALAR


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
    """One parameter. Text: `read f32* in_ptr0`, `write f32* out_ptr0 divisible(16)`, `i64 ks0`,
    `read f16[] a_desc block(BLOCK_M, 64)`.

    `may_alias` names other parameters that may be given the same bytes, from the same first byte on (in-place pairs): of
    each element, the kernel has read through one what it writes through the other. `may_overlap` names those that may be
    given bytes of one storage in any position, because the source keeps their order: it may read what it has itself
    written. `divisible`: the address in bytes, or the number, is a multiple of this, and code may rely on it. `block`: for a descriptor, the sizes of the
    blocks that it is made for, over the kernel's meta-parameters.
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
    """Positions of a kernel's parameters that are read and written, and how many parameters there are."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    count: int

    @staticmethod
    def of(params: Sequence[KernelParam]) -> KernelAccess:
        """From the parameters."""
        reads = tuple(i for i, p in enumerate(params) if p.access.reads)
        writes = tuple(i for i, p in enumerate(params) if p.access.writes)
        return KernelAccess(reads, writes, len(params))


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A header (`torch/csrc/inductor/cpp_prefix.h`) or a module (`torch._inductor.runtime.triton_helpers`).

    `origin`: the distribution that it is part of, with its version; `sha256`: of its own text, in hex. They are those that
    the source was written for, each empty where it is not known. What the source's compiler itself brings (the standard
    library, `triton`) is not listed.
    Text: `"torch/csrc/inductor/cpp_prefix.h" of "torch 2.13.0" sha256 "3f..."`.
    """

    syntax: ClassVar[str] = "{name}< of {origin}>< sha256 {sha256}>"

    name: str
    origin: str = ""
    sha256: str = ""
