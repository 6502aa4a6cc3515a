"""Library operators as kernels: torch's, called with the arguments of a launch."""

from __future__ import annotations

from functools import reduce
from typing import Any

from triton_runtime.errors import KernelError
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

# Any in this file: operators and tensors.


def load_operator(kernel: ir.OperatorKernel) -> LoadedKernel:
    """Returns the operator as a kernel with the arguments of its parameters. Raises KernelError TR111 if
    torch lacks it.
    """
    # imported here: only kernels with tensors need torch
    import torch

    schema = ir.parse_schema(kernel.schema)
    operator = _find(torch, kernel, schema.name)
    positions = {p.name: i for i, p in enumerate(kernel.params)}
    constants = {name: _native(torch, value) for name, value in kernel.constants}
    places = [(a.name, positions[a.name]) for a in schema.args if a.name in positions]

    def launch(*args: Any) -> None:
        with torch.no_grad():
            operator(**{name: args[i] for name, i in places}, **constants)

    return launch


def _find(torch: Any, kernel: ir.OperatorKernel, name: str) -> Any:
    try:
        return reduce(getattr, ir.overload_path(name), torch.ops)
    except (AttributeError, RuntimeError) as error:
        raise KernelError(
            "TR111",
            f"kernel '{kernel.name}' calls {name}, which torch does not have",
            "import the library that registers the operator before loading the program",
        ) from error


def _native(torch: Any, value: ir.OperatorConstant) -> Any:
    if isinstance(value, ir.DType):
        return getattr(torch, value.torch_name)
    return list(value) if isinstance(value, tuple) else value
