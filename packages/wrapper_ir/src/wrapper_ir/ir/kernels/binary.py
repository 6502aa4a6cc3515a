"""Kernels compiled ahead of time, as a program's artifact carries them: an image, and what launching it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from wrapper_ir.ir.kernels.compiled import DriverParam, ImageKind, LaunchFacts
from wrapper_ir.ir.kernels.triton import TritonConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBinary:
    """One kernel compiled with one config for one target, with all that a launch takes: `facts` say how the driver is
    called, `params` what it is given. The grid is `bound_grid(kernel, config)`.

    `runtime`: the kind of the kernel runtime that made it. `kernel`: the kernel's `wrapper_ir.json.kernel_hash.content_hash`. `target`: what it was
    compiled for, `cuda:sm_90`. `config`: None for kernels of a kind that has none. `key`: a hash (hex) by which the
    runtime tells that it would make the same today: over all that decided the result, the version of its compiler, which
    `compiler` names, among it.
    """

    runtime: str
    kernel: str
    target: str
    key: str
    compiler: str
    config: TritonConfig | None
    kind: ImageKind
    facts: LaunchFacts
    params: tuple[DriverParam, ...]
    image: bytes = field(repr=False)
