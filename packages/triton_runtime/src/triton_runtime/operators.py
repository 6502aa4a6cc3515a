"""Library operators as kernels: torch's, called with the arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from triton_runtime.errors import KernelError
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


def load_operator(kernel: ir.OperatorKernel) -> LoadedKernel:
    """Returns the operator as a kernel with the arguments of its parameters. Raises KernelError TR111 if
    torch lacks it.
    """
    # imported here: only kernels with tensors need torch
    import torch

    schema = ir.parse_schema(kernel.schema)
    operator = _find(kernel, schema.name)
    positions = {p.name: i for i, p in enumerate(kernel.params)}
    constants = {name: _native(value) for name, value in kernel.constants}
    places = [(a.name, positions[a.name]) for a in schema.args if a.name in positions]

    def launch(*args: object) -> None:
        with torch.no_grad():
            operator(**{name: args[i] for name, i in places}, **constants)

    return launch


def _find(kernel: ir.OperatorKernel, name: str) -> Callable[..., object]:
    import torch

    try:
        library: object = torch.ops
        operator = reduce(getattr, ir.overload_path(name), library)
    except (AttributeError, RuntimeError) as error:
        raise KernelError(
            "TR111",
            f"kernel '{kernel.name}' calls {name}, which torch does not have",
            "import the library that registers the operator before loading the program",
        ) from error
    # a path with an overload names a function
    assert callable(operator)
    return operator


def _native(value: ir.OperatorConstant) -> object:
    import torch

    if isinstance(value, ir.DType):
        return getattr(torch, value.torch_name)
    return list(value) if isinstance(value, tuple) else value
