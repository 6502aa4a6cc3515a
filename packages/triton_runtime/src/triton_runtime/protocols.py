"""Where the parts of the runtime meet: what a driver gets, and what a store is.

A driver is one way to run kernels: on a CUDA device, in Triton's interpreter, or not at all (recorded). All drivers
get the same `Launchable`; those that say `needs_binary` get it compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from triton_runtime.binding import Binding
from triton_runtime.grids import Grid
from wrapper_ir.kernels import TritonConfig, TritonKernel
from wrapper_ir.protocols import LoadedKernel
from wrapper_ir.types import Device

__all__ = ["Binary", "BinaryFacts", "ByteStore", "Driver", "Launchable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryFacts:
    """What a compiled kernel asks of its launch, and what its compiler found out. Sizes are in bytes.

    `symbol`: the kernel's name in the binary. `registers` are for one thread; `local_bytes` is local memory for one
    thread, where registers are spilled to. `scratch_bytes` and `profile_bytes` are global memory for one program of the
    grid: the kernel takes two more pointers behind its arguments, `scratch` and `profile` (null where 0 bytes).
    `target` is `cuda:sm_90`, `compiler` is the version of Triton.
    """

    symbol: str
    target: str
    compiler: str
    num_warps: int
    num_ctas: int
    warp_size: int
    shared_bytes: int
    registers: int | None
    local_bytes: int | None
    scratch_bytes: int = 0
    scratch_align: int = 1
    profile_bytes: int = 0
    profile_align: int = 1
    cooperative: bool = False
    dependent_launch: bool = False
    """Programmatic dependent launch (`launch_pdl`)."""
    descriptors: str = ""
    """JSON of what Triton's metadata says of tensor descriptors (`tensordesc_meta`); empty where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A kernel compiled with one config for one target. `image` is what the device's driver loads (a cubin)."""

    image: bytes
    assembly: str
    """What the image was assembled from (PTX)."""
    facts: BinaryFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """A kernel with the config that was chosen for it, ready for a driver.

    `binding` says what becomes of each argument of a launch, `grid` gives the three sizes of the grid from them.
    """

    kernel: TritonKernel
    config: TritonConfig
    binding: Binding
    grid: Grid
    binary: Binary | None = None


class Driver(Protocol):
    """One way to run kernels."""

    @property
    def name(self) -> str:
        """What the driver is called in messages and statistics."""
        ...

    @property
    def needs_binary(self) -> bool:
        """Whether `load` wants `Launchable.binary`."""
        ...

    def load(self, launchable: Launchable, device: Device) -> LoadedKernel:
        """Makes the kernel callable: with the arguments of the definition's parameters, in their order (tensors for
        pointers and descriptors, numbers for scalars), then the numbers of the grid; it returns None. Launches go to
        the current stream of `device`, or of the current device where its index is None.

        Raises KernelError for what this driver cannot load; the callable raises LaunchError for arguments that do not
        fit.
        """
        ...


class ByteStore(Protocol):
    """Keeps bytes under keys that say all about them, so that what is found is never stale."""

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`, or None."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Keeps `data`; a store that cannot says so in a warning, not in an error."""
        ...
