"""Kernels in the `direct` form: the node's target is the loaded launcher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wrapper_ir.protocols import LoadedKernel

__all__ = ["LoadedTarget"]


@dataclass(frozen=True, eq=False)
class LoadedTarget:
    """A loaded kernel with the names that torch.fx asks of a function. `launch` is what is worth calling in a hurry."""

    launch: LoadedKernel
    name: str
    hash: str

    @property
    def __name__(self) -> str:
        return self.name

    # Any: tensors and numbers, in the order of the kernel's parameters, then those of its grid
    def __call__(self, *args: Any) -> None:
        """Launches the kernel."""
        self.launch(*args)
