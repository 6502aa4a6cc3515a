"""Where the parts of the runtime meet: what a driver gets, and what a store is.

A driver is one way to run kernels: on a CUDA device, in Triton's interpreter, or not at all (recorded). All drivers
get the same `Launchable`; those that say `needs_binary` get it compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from triton_runtime.binding import Binding
from triton_runtime.grids import Grid
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """What Triton's compiler makes of a job. `image` is what the device's driver loads (a cubin); `target` is
    `cuda:sm_90`, `compiler` the version of Triton. `maps`: how tensors are described for the copy engine, for each
    descriptor among the arguments; empty where there are none, or where they are passed as addresses, sizes and strides.
    """

    image: bytes
    assembly: str
    """What the image was assembled from (PTX)."""
    target: str
    compiler: str
    facts: ir.LaunchFacts
    maps: tuple[ir.TensorMap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """A kernel with the config that was chosen for it, ready for a driver.

    `binding` says what becomes of each argument of a launch, `grid` gives the three sizes of the grid from them; `binary`
    what its driver is given, where it is compiled.
    """

    kernel: ir.TritonKernel
    config: ir.TritonConfig
    binding: Binding
    grid: Grid
    binary: ir.KernelBinary | None = None


class Driver(Protocol):
    """One way to run kernels."""

    @property
    def name(self) -> str:
        """What the driver is called in messages and statistics."""

    @property
    def needs_binary(self) -> bool:
        """Whether `load` wants `Launchable.binary`."""

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """Makes the kernel callable: with the arguments of the definition's parameters, in their order (tensors for
        pointers and descriptors, numbers for scalars), then the numbers of the grid; it returns None. Launches go to
        the current stream of `device`, or of the current device where its index is None.

        Raises KernelError for what this driver cannot load; the callable raises LaunchError for arguments that do not
        fit.
        """


class ByteStore(Protocol):
    """Keeps bytes under keys that say all about them, so that what is found is never stale."""

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`, or None."""

    def put(self, key: str, data: bytes) -> None:
        """Keeps `data`; a store that cannot says so in a warning, not in an error."""
