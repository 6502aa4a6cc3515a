"""Upstream's multi-kernels: several kernels for one job, recorded where upstream would write a class that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._inductor.codegen.multi_kernel import MultiKernelState

from inductor_frontend.hooks.events import DefineMulti

__all__ = ["RecordingMultiKernels"]

# Any in this file: upstream's kernels, whose classes differ.


class RecordingMultiKernels(MultiKernelState):
    """Records each set of kernels once."""

    def __init__(self, record: Callable[[DefineMulti], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # upstream's
        self._record = record

    def define_kernel(self, kernels: list[Any], kernel_shape_keys: Sequence[object] | None = None) -> str:
        """The name of the multi-kernel of these kernels, which take the same arguments."""
        names = tuple(k.kernel_name for k in kernels)
        name = self.subkernel_to_kernel_name.get(names)
        if name is None:
            name = f"multi_kernel_{len(self.subkernel_to_kernel_name)}"
            self.subkernel_to_kernel_name[names] = name
            self._record(DefineMulti(name, names))
        return name
