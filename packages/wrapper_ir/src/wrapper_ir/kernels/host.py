"""Kernels that are C++, and kernels of a kind that a plug-in knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.kernels.params import KernelParam

__all__ = ["CppKernel", "ForeignKernel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A host kernel: a complete C++ translation unit with one `extern "C" void entry(...)`.

    `isa` names the instruction sets that the source was vectorised for (`avx2`, `avx512`); empty: generic.
    """

    kind: ClassVar[str] = "cpp"
    name: str
    params: tuple[KernelParam, ...]
    source: str
    entry: str
    isa: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKernel:
    """A kernel of a kind that a plug-in registered: routed by `runtime`, opaque otherwise."""

    kind: ClassVar[str] = "foreign"
    name: str
    params: tuple[KernelParam, ...]
    runtime: str
    payload: str
    """Text that only the runtime understands (base64 where it is binary)."""
