"""Records Inductor's multi-kernels, several kernels for one computation, in place of a class that benchmarks
them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch._inductor.codegen.multi_kernel import MultiKernelState

from inductor_frontend.record.events import DefineMulti, OperatorChoice

# Any in this file: Inductor's kernels, whose classes differ.


class RecordingMultiKernels(MultiKernelState):
    """Records each set of kernels once."""

    def __init__(self, append: Callable[[DefineMulti], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Inductor's
        self._append = append

    def define_kernel(self, kernels: list[Any], kernel_shape_keys: Sequence[object] | None = None) -> str:
        """Returns the name of the multi-kernel of these kernels, which accept the same arguments."""
        return self._named(DefineMulti("", tuple(k.kernel_name for k in kernels)))

    def define_templates(
        self,
        kernels: Sequence[Any],
        hints: Sequence[int | None],
        takes: Sequence[Sequence[int]],
        own: int,
        operator: OperatorChoice | None = None,
    ) -> str:
        """Returns the name of the multi-kernel of instances of templates, and of `operator`. See
        `DefineMulti` for the arguments."""
        names = tuple(k.kernel_name for k in kernels)
        return self._named(DefineMulti("", names, own, tuple(hints), operator, tuple(map(tuple, takes))))

    def _named(self, unnamed: DefineMulti) -> str:
        key = (unnamed.kernels, repr(unnamed.operator))
        name = self.subkernel_to_kernel_name.get(key)
        if name is None:
            name = f"multi_kernel_{len(self.subkernel_to_kernel_name)}"
            self.subkernel_to_kernel_name[key] = name
            self._append(replace(unnamed, name=name))
        return name
