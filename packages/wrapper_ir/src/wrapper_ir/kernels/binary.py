"""Kernels compiled ahead of time, as a program's artifact carries them: bytes that only their runtime reads."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["KernelBinary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBinary:
    """One kernel compiled for one target.

    `runtime`: the kind of the kernel runtime that made it. `kernel`: the kernel's `content_hash`. `target`: what it was
    compiled for, `cuda:sm_90`. `key`: a hash (hex) by which the runtime tells that it would make the same today: over
    all that decided the result, the version of its compiler among it. `data` is the runtime's own form.
    """

    runtime: str
    kernel: str
    target: str
    key: str
    data: bytes = field(repr=False)
