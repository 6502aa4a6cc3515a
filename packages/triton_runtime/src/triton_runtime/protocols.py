"""Interfaces between the parts of the runtime: the input of drivers, and stores.

A driver is one way to run kernels: on a CUDA device, in Triton's interpreter, or not at all (recorded). All
drivers receive the same `Launchable`; those with `needs_binary` receive it compiled.
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
    """The output of Triton's compiler for a job.

    `image` is loaded by the device's driver (a cubin); `target` is `cuda:sm_90`, `compiler` the version of
    Triton. `maps` has the tensor map of each descriptor argument; empty without descriptors, or if they are
    passed as addresses, sizes and strides.
    """

    image: bytes
    assembly: str
    """The assembly of the image (PTX)."""
    target: str
    compiler: str
    facts: ir.LaunchFacts
    maps: tuple[ir.TensorMap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """A kernel with its chosen config, ready for a driver.

    `binding` maps the arguments of a launch to parameters, `grid` computes the three sizes of the grid.
    `binary` is the compiled kernel, if the driver needs one.
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
        """The driver's name in messages and statistics."""

    @property
    def needs_binary(self) -> bool:
        """True if `load` needs `Launchable.binary`."""

    def load(self, launchable: Launchable, device: ir.Device) -> LoadedKernel:
        """Returns the kernel as a callable that returns None.

        It takes the arguments of the definition's parameters in order (tensors for pointers and descriptors,
        numbers for scalars), then the numbers of the grid. Launches use the current stream of `device`, or of
        the current device if its index is None. Raises KernelError for a kernel that this driver cannot load;
        the callable raises LaunchError for wrong arguments.
        """


class ByteStore(Protocol):
    """Stores bytes under keys that determine their content, so that an entry is never stale."""

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`, or None."""

    def put(self, key: str, data: bytes) -> None:
        """Stores `data`; a store that cannot warns instead of raising."""
