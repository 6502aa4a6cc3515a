"""Kernels compiled ahead of time, as stored in an artifact: an image and its launch parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from wrapper_ir.ir.kernels.compiled import DriverParam, ImageKind, LaunchFacts
from wrapper_ir.ir.kernels.triton import TritonConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBinary:
    """One kernel compiled with one config for one target.

    `facts` describe the launch and `params` the parameters that the driver passes. The grid is
    `bound_grid(kernel, config)`.

    - `runtime`: kind of the kernel runtime that compiled it.
    - `kernel`: the kernel's `wrapper_ir.json.kernel_hash.content_hash`.
    - `target`: target architecture, such as `cuda:sm_90`.
    - `key`: hash (hex) over all inputs of the compilation, including the compiler's version. A runtime uses
      the binary only if it would compile the kernel with the same key.
    - `compiler`: name and version of the compiler.
    - `config`: None for kinds of kernels without configs.
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
