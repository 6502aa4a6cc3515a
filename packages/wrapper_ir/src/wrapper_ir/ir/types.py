"""Types of values: storages, tensors, scalars, nested results and opaque handles.

A *storage* is bytes on one device with one lifetime; a *tensor* is a typed strided window on a storage.
The two are different types on purpose: a planner moves storages, kernels see tensors.

Sparse tensors (no strides, no storage), quantised tensors (`torch.quint8`, `qint8`, `qint32`: a scale and a
zero point beside the elements) and nested tensors (parts of several sizes) have no type here. Capture refuses
them as parameters, buffers, intermediate values and arguments (FE305), except sparse arguments that a model
ignores or returns, and refuses packed quantised weights of a library (FE102). `torch.compile` unwraps jagged
tensors; torch.export cannot. A call refuses all of them as arguments (WIR926). Quantised models that compute
with integers and scales as plain tensors are captured. Operators may name a sparse layout as an argument
(`Layout`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

from wrapper_ir.expr import Expr, SymKind


class DType(enum.Enum):
    """Element types; the value is the name in text form. `itemsize` is in bytes."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F8E4M3FN = "f8e4m3fn"
    F8E5M2 = "f8e5m2"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0FNU = "f8e8m0fnu"
    F4E2M1FNX2 = "f4e2m1fnx2"
    """Two 4-bit numbers in a byte; sizes and strides count bytes."""
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    BOOL = "bool"
    C32 = "c32"
    C64 = "c64"
    C128 = "c128"

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def torch_name(self) -> str:
        """The attribute of the `torch` module that names this dtype."""
        return _TORCH_NAME[self]

    @property
    def is_floating(self) -> bool:
        """True for real floating-point types."""
        return self.value.startswith(("f", "bf"))

    @property
    def is_complex(self) -> bool:
        """True for complex types."""
        return self.value.startswith("c")


_ITEMSIZE: dict[DType, int] = {
    DType.F64: 8, DType.F32: 4, DType.F16: 2, DType.BF16: 2,
    DType.F8E4M3FN: 1, DType.F8E5M2: 1, DType.F8E4M3FNUZ: 1, DType.F8E5M2FNUZ: 1, DType.F8E8M0FNU: 1,
    DType.F4E2M1FNX2: 1,
    DType.I64: 8, DType.I32: 4, DType.I16: 2, DType.I8: 1,
    DType.U64: 8, DType.U32: 4, DType.U16: 2, DType.U8: 1, DType.BOOL: 1,
    DType.C32: 4, DType.C64: 8, DType.C128: 16,
}  # fmt: skip

_TORCH_NAME: dict[DType, str] = {
    DType.F64: "float64", DType.F32: "float32", DType.F16: "float16", DType.BF16: "bfloat16",
    DType.F8E4M3FN: "float8_e4m3fn", DType.F8E5M2: "float8_e5m2",
    DType.F8E4M3FNUZ: "float8_e4m3fnuz", DType.F8E5M2FNUZ: "float8_e5m2fnuz",
    DType.F8E8M0FNU: "float8_e8m0fnu", DType.F4E2M1FNX2: "float4_e2m1fn_x2",
    DType.I64: "int64", DType.I32: "int32", DType.I16: "int16", DType.I8: "int8",
    DType.U64: "uint64", DType.U32: "uint32", DType.U16: "uint16", DType.U8: "uint8", DType.BOOL: "bool",
    DType.C32: "complex32", DType.C64: "complex64", DType.C128: "complex128",
}  # fmt: skip


class MemoryFormat(enum.Enum):
    """Memory formats as operator arguments."""

    CONTIGUOUS = "contiguous_format"
    PRESERVE = "preserve_format"
    CHANNELS_LAST = "channels_last"
    CHANNELS_LAST_3D = "channels_last_3d"


class Layout(enum.Enum):
    """Tensor layouts as operator arguments."""

    STRIDED = "strided"
    SPARSE_COO = "sparse_coo"
    SPARSE_CSR = "sparse_csr"
    SPARSE_CSC = "sparse_csc"
    SPARSE_BSR = "sparse_bsr"
    SPARSE_BSC = "sparse_bsc"
    JAGGED = "jagged"
    MKLDNN = "_mkldnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTraits:
    """Properties of a type of device that decide how programs are verified, planned and emitted."""

    allocation_alignment: int = 64
    """Alignment that every allocator of the device guarantees, in bytes."""
    has_memory_pools: bool = False
    """Torch can serve allocations of a scope from a pool (`EnterMemoryPool`)."""
    has_group_memory: bool = False
    """Processes can map each other's memory (symmetric), or register it with a communicator."""
    replays_calls: bool = False
    """Kernels of a library call can be captured once and launched again."""
    persists_memory: bool = False
    """Emitters can keep the memory of intermediate buffers between calls."""
    plans_memory: bool = False
    """Compiled graphs plan their memory without being asked: an allocation costs more than the plan."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device: an open type name and an index (None where the type has one device). Text: `cuda:0`."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @property
    def traits(self) -> DeviceTraits:
        """The properties of the type of device; a type that is not listed has the defaults."""
        return _TRAITS.get(self.type, _PLAIN)


_PLAIN = DeviceTraits()
_TRAITS = {
    "cpu": DeviceTraits(persists_memory=True),
    # 256 bytes: CUDA programming guide, "Device memory accesses"; torch's allocator aligns to 512
    "cuda": DeviceTraits(
        allocation_alignment=256,
        has_memory_pools=True,
        has_group_memory=True,
        replays_calls=True,
        persists_memory=True,
        plans_memory=True,
    ),
}

CPU = Device("cpu")


class MemoryKind(enum.Enum):
    """Kinds of device memory."""

    DEFAULT = "default"
    PINNED = "pinned"
    SYMMETRIC = "symmetric"
    REGISTERED = "registered"


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """A memory space. Memory of a process group names the group and a deterministic allocation id.

    Processes of the group access symmetric memory directly. Registered memory is known to the communicator of
    the group, which then skips staging copies.

    Text: `pinned`, `symmetric("0", 3)`, `registered("0", 4)`.
    """

    syntax: ClassVar[str] = "{kind}<({group}, {alloc_id})>"

    kind: MemoryKind = MemoryKind.DEFAULT
    group: str = ""
    alloc_id: int = 0


_DEFAULT_SPACE = MemorySpace()


MAX_RANK = 256
"""Upper bound on the rank of tensors in programs that are read from files."""
DEFAULT_ALIGNMENT = 64
"""Default alignment of storages in bytes: that of torch's host allocator (`c10::gAlignment`). Device
allocators guarantee more."""


@dataclass(frozen=True, slots=True)
class StorageType:
    """`nbytes` bytes on `device` at an address that is a multiple of `alignment` bytes, without an element
    type.

    The text omits an alignment of 64 bytes for allocations, of 1 byte for parameters (any storage), and for
    slots the alignment derived from pool and offset.

    Text: `storage(1024)`, `storage(s0*256, pinned align(16)) @cuda:0`.
    """

    syntax: ClassVar[str] = "storage({nbytes}<, {space}>< align({alignment})>){device}"
    unsaid: ClassVar[Mapping[str, object]] = MappingProxyType({"alignment": 1})

    nbytes: Expr
    device: Device = CPU
    space: MemorySpace = _DEFAULT_SPACE
    alignment: int = DEFAULT_ALIGNMENT

    @property
    def is_symmetric(self) -> bool:
        """Returns whether the memory is shared by the processes of a group."""
        return self.space.kind is MemoryKind.SYMMETRIC

    @property
    def is_group_memory(self) -> bool:
        """Returns whether the memory is symmetric or registered: all calls share the memory of its id."""
        return self.space.kind in (MemoryKind.SYMMETRIC, MemoryKind.REGISTERED)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A strided window: `sizes` and `strides` in elements. Text: `f32[s0, 64]`, `f32[4, 4]{1, 4}`."""

    dtype: DType
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    device: Device = CPU


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A scalar value (int, float or bool): a parameter or a result. Text: `int`, `float`, `bool`."""

    syntax: ClassVar[str] = "{kind}"
    device: ClassVar[None] = None

    kind: SymKind


@dataclass(frozen=True, slots=True)
class TupleType:
    """The nested result of an operator with several outputs. Only `Unpack` and `Drop` accept it. Text:
    `results`."""

    syntax: ClassVar[str] = "results"
    device: ClassVar[None] = None


class OpaqueKind(enum.Enum):
    """Handles that are neither tensors nor numbers.

    A `packed` handle is a constant in a format of one machine's library; operators accept it as a tensor.
    """

    GENERATOR = "generator"
    PROCESS_GROUP = "process_group"
    STREAM = "stream"
    EVENT = "event"
    TORCHBIND = "torchbind"
    TOKEN = "token"
    PACKED = "packed"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """An opaque handle; `detail` is the name of a class or group, or the kind of packed data.

    Text: `event`, `process_group("0")`.
    """

    syntax: ClassVar[str] = "{kind}<({detail})>"
    device: ClassVar[None] = None

    kind: OpaqueKind
    detail: str = ""


Type = StorageType | TensorType | ScalarType | TupleType | OpaqueType
