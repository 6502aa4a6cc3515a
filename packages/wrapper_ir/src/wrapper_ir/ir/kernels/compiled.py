"""What a compiled kernel asks of its launch: facts, and the parameters that the device's driver passes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.ir.types import DType


class ImageKind(enum.Enum):
    """What the bytes of a compiled kernel are; the value is the suffix of its file."""

    CUBIN = "cubin"
    """An ELF file of NVIDIA's: `cuModuleLoadData`."""
    PTX = "ptx"
    """NVIDIA's assembly, which the driver compiles."""
    HSACO = "hsaco"
    """A code object of AMD's: `hipModuleLoadData`."""
    SPIRV = "spv"
    """SPIR-V: `zeModuleCreate`, `clCreateProgramWithIL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Global memory for the kernel's own use during a launch: `nbytes` for each block of the grid that the driver
    launches, at a multiple of `align` bytes. A kernel that needs none gets a null pointer."""

    nbytes: int = 0
    align: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """What a compiled kernel asks of its launch, and what its compiler reports. Sizes are in bytes.

    `symbol`: the entry's name in the image. `num_warps` times `warp_size` threads make a block, in one dimension.
    `cluster`: blocks of one program, by axis; the driver's grid is the kernel's, multiplied by it. `shared_bytes`: dynamic
    shared memory of a block. `cooperative`: all blocks run at the same time. `dependent_launch`: programmatic dependent
    launch. `registers` and `local_bytes` (registers that are spilled) are for one thread, None where they are not known.
    """

    symbol: str
    num_warps: int
    warp_size: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    scratch: Scratch = Scratch()
    profile: Scratch = Scratch()
    """Memory that an instrumented kernel writes its measurements to."""
    cooperative: bool = False
    dependent_launch: bool = False
    registers: int | None = None
    local_bytes: int | None = None

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.num_warps * self.warp_size


class DriverParamKind(enum.Enum):
    """What is passed for a parameter of a compiled kernel."""

    POINTER = "pointer"
    """The address of a tensor's first element."""
    NUMBER = "number"
    """A number, by value."""
    TENSOR_MAP = "tensor_map"
    """A tensor's description for the copy engine, by value, at a multiple of 64 bytes (see `TensorMap`)."""
    SIZE = "size"
    """The size of a tensor along `dim`, in elements."""
    STRIDE = "stride"
    """The stride of a tensor along `dim`, in elements."""
    ZERO = "zero"
    """A number that is always 0."""
    SCRATCH = "scratch"
    """The address of `LaunchFacts.scratch`."""
    PROFILE = "profile"
    """The address of `LaunchFacts.profile`."""


_ADDRESS_BYTES = 8
_MAP_BYTES = 128
_ADDRESSES = (DriverParamKind.POINTER, DriverParamKind.SCRATCH, DriverParamKind.PROFILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """How a tensor is described for the copy engine of a CUDA device (`cuTensorMapEncodeTiled`).

    `box`: for each dimension of the tensor, the elements that are copied at a time (the driver counts dimensions from the
    innermost). `element_size` is in bytes; `element_type` and
    `swizzle` are the driver's numbers. `padded`: two elements of four bits lie in 16 bits, so that the innermost size
    counts twice. Elements are not interleaved, the second-level cache fetches 128 bytes, and what lies outside reads as 0.
    """

    box: tuple[int, ...]
    element_type: int
    element_size: int
    swizzle: int = 0
    padded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverParam:
    """One parameter of a compiled kernel, as the driver takes it; they come in the order of the kernel's own.

    `position`: which argument of a launch it comes from, -1 for memory that the launch brings. `dtype`: a pointer's
    element type, or the type of the number that is passed. `dim` is the dimension of a size or stride. `divisible`: the
    address in bytes, or the number, is a multiple of this, and the compiled code relies on it.
    """

    kind: DriverParamKind
    dtype: DType
    position: int = -1
    dim: int = 0
    divisible: int = 1
    map: TensorMap | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of what is passed; what holds it is aligned to them, a map to 64."""
        if self.kind is DriverParamKind.TENSOR_MAP:
            return _MAP_BYTES
        return _ADDRESS_BYTES if self.kind in _ADDRESSES else self.dtype.itemsize
