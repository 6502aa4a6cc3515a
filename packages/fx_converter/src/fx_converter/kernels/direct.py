"""Kernels in the `direct` form: the target of a node is the loaded launcher."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from fx_converter._compat import free_name
from fx_converter.nodes import Value
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime import refuse_tracers


@dataclass(frozen=True, eq=False)
class LoadedTarget:
    """A loaded kernel with the attributes that torch.fx reads from a function.

    `launch` is the fastest entry.
    """

    launch: LoadedKernel
    name: str
    hash: str
    _schema: torch.FunctionSchema = field(repr=False)
    """The schema, with the arguments that the kernel writes.

    torch's passes read it under this name from targets.
    """

    @property
    def schema(self) -> torch.FunctionSchema:
        """The schema of the kernel's operator in the form `hop`."""
        return self._schema

    @property
    def __name__(self) -> str:
        return free_name(self.name)

    def __call__(self, *args: Value) -> None:
        """Launches the kernel; `args` are in the order of its parameters, then the numbers of its grid.
        Raises ExecutionError WIR939 under a tracer."""
        refuse_tracers(torch)
        self.launch(*args)
