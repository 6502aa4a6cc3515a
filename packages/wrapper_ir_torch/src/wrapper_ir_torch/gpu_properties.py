"""Properties of GPUs by architecture: the values that torch's code generation depends on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProperties:
    """Properties of one GPU model. Fields that torch's device properties have keep their names; sizes are in
    bytes."""

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int
    L2_cache_size: int
    shared_memory_per_multiprocessor: int
    shared_memory_per_block_optin: int
    shared_memory_per_block: int = 48 * _KIB
    regs_per_multiprocessor: int = 65536
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    warp_size: int = 32
    cudnn: int = 91900
    """Version of cuDNN, as returned by `torch.backends.cudnn.version()`; 0: none. Torch prefers cuDNN for
    attention on some GPUs from version 9.15.1."""

    @property
    def gcnArchName(self) -> str:
        """AMD's name of the architecture; for other GPUs, torch repeats the device name here."""
        return self.name

    @property
    def arch(self) -> str:
        """Name of the architecture: `sm_90` for compute capability 9.0."""
        return f"sm_{self.major}{self.minor}"


def _known(
    name: str,
    capability: tuple[int, int],
    processors: int,
    memory: int,
    cache: int,
    shared: int,
    threads: int = 2048,
) -> GpuProperties:
    """Returns a row of the table. `memory` is in GiB, `cache` (L2) in MiB, `shared` (per multiprocessor) in
    KiB.

    A block may use all but one KiB of a multiprocessor's shared memory.
    """
    return GpuProperties(
        name=name,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=processors,
        total_memory=memory * _GIB,
        L2_cache_size=cache * _MIB,
        shared_memory_per_multiprocessor=shared * _KIB,
        shared_memory_per_block_optin=(shared - 1) * _KIB,
        max_threads_per_multi_processor=threads,
    )


_KNOWN = (
    _known("NVIDIA A100-SXM4-80GB", (8, 0), 108, memory=80, cache=40, shared=164),
    _known("NVIDIA A10", (8, 6), 72, memory=24, cache=6, shared=100, threads=1536),
    _known("NVIDIA L40S", (8, 9), 142, memory=48, cache=96, shared=100, threads=1536),
    _known("NVIDIA H100", (9, 0), 132, memory=80, cache=50, shared=228),
    _known("NVIDIA B200", (10, 0), 148, memory=180, cache=126, shared=228),
)

DEVICES: Mapping[str, GpuProperties] = MappingProxyType({p.arch: p for p in _KNOWN})
"""One GPU for each architecture. For any other GPU, pass its properties to the capture
(`CaptureOptions.gpu`)."""


def properties_here(index: int = 0) -> GpuProperties:
    """Returns the properties of a GPU of this machine, to capture for the same model elsewhere
    (`CaptureOptions.gpu`)."""
    device = torch.cuda.get_device_properties(index)
    fields = {
        f.name: getattr(device, f.name) for f in dataclasses.fields(GpuProperties) if hasattr(device, f.name)
    }
    cudnn: int | None = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]  # torch's
    return GpuProperties(**fields, cudnn=cudnn or 0)
