"""Kernels in the `direct` form: the node's target is the loaded launcher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from fx_converter._compat import free_name
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime import refuse_tracers


@dataclass(frozen=True, eq=False)
class LoadedTarget:
    """A loaded kernel with the names that torch.fx asks of a function. `launch` is what is worth calling in a hurry."""

    launch: LoadedKernel
    name: str
    hash: str
    _schema: torch.FunctionSchema = field(repr=False)
    """What it writes of its arguments, under the name by which torch's own passes ask any call target for that."""

    @property
    def schema(self) -> torch.FunctionSchema:
        """The schema of the operator that the kernel is in the form `hop`."""
        return self._schema

    @property
    def __name__(self) -> str:
        return free_name(self.name)

    # Any: tensors and numbers, in the order of the kernel's parameters, then those of its grid
    def __call__(self, *args: Any) -> None:
        """Launches the kernel. Raises ExecutionError WIR939 under a tracer."""
        refuse_tracers(torch)
        self.launch(*args)
