"""Launch requirements of a compiled kernel, and the parameters that the device's driver passes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.ir.types import DType


class ImageKind(enum.Enum):
    """Format of a compiled kernel; the value is the suffix of its file."""

    CUBIN = "cubin"
    """NVIDIA ELF file, loaded by `cuModuleLoadData`."""
    PTX = "ptx"
    """NVIDIA assembly, compiled by the driver."""
    HSACO = "hsaco"
    """AMD code object, loaded by `hipModuleLoadData`."""
    SPIRV = "spv"
    """SPIR-V, loaded by `zeModuleCreate` or `clCreateProgramWithIL`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Global scratch memory of a launch: `nbytes` per block of the driver's grid, aligned to `align` bytes.

    A kernel without scratch memory receives a null pointer.
    """

    nbytes: int = 0
    align: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """Launch requirements of a compiled kernel, and figures that its compiler reports. Sizes are in bytes.

    - `symbol`: name of the entry in the image.
    - `num_warps`, `warp_size`: a block has `num_warps * warp_size` threads, in one dimension.
    - `cluster`: blocks per program, by axis. The driver's grid is the kernel's multiplied by it.
    - `shared_bytes`: dynamic shared memory per block.
    - `cooperative`: all blocks run at the same time.
    - `dependent_launch`: programmatic dependent launch.
    - `registers`, `local_bytes`: registers and spilled bytes per thread, None if unknown.
    """

    symbol: str
    num_warps: int
    warp_size: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    scratch: Scratch = Scratch()
    profile: Scratch = Scratch()
    """Memory for the measurements of an instrumented kernel."""
    cooperative: bool = False
    dependent_launch: bool = False
    registers: int | None = None
    local_bytes: int | None = None

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.num_warps * self.warp_size


class DriverParamKind(enum.Enum):
    """Kind of argument that the driver passes to a compiled kernel."""

    POINTER = "pointer"
    """The address of a tensor's first element."""
    NUMBER = "number"
    """A number, by value."""
    TENSOR_MAP = "tensor_map"
    """A tensor's descriptor for the copy engine, by value, aligned to 64 bytes (see `TensorMap`)."""
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
    """Parameters of a tensor descriptor for the copy engine of a CUDA device (`cuTensorMapEncodeTiled`).

    `box` has the elements copied at a time, for each dimension of the tensor; the driver counts dimensions
    from the innermost. `element_size` is in bytes; `element_type` and `swizzle` are the driver's enumerators.
    `padded`: two 4-bit elements occupy 16 bits, so the innermost size counts twice. Elements are not
    interleaved, the L2 cache fetches 128 bytes, and elements out of bounds read as 0.
    """

    box: tuple[int, ...]
    element_type: int
    element_size: int
    swizzle: int = 0
    padded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverParam:
    """One parameter of a compiled kernel as the driver passes it, in the order of the kernel's parameters.

    - `position`: position of the launch argument, -1 for memory that the launcher allocates.
    - `dtype`: element type of a pointer, or type of the number.
    - `dim`: dimension of a size or stride.
    - `divisible`: the compiled code assumes that the address in bytes, or the number, is a multiple of this.
    """

    kind: DriverParamKind
    dtype: DType
    position: int = -1
    dim: int = 0
    divisible: int = 1
    map: TensorMap | None = None

    @property
    def nbytes(self) -> int:
        """Size of the argument in bytes, which is also its alignment; a tensor map is aligned to 64."""
        if self.kind is DriverParamKind.TENSOR_MAP:
            return _MAP_BYTES
        return _ADDRESS_BYTES if self.kind in _ADDRESSES else self.dtype.itemsize
