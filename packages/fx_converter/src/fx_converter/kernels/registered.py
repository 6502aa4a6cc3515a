"""Kernels as operators with a schema and a fake implementation, so that torch can trace their calls.

Torch's registry of operators belongs to the process. A kernel is registered once, under its content hash.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import torch

from fx_converter._compat import has_effect
from fx_converter.nodes import Value
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_torch import OpOverload

NAMESPACE = "wrapper_ir_kernels"


@lru_cache(maxsize=1)
def _library() -> torch.library.Library:
    """Returns the library. Registrations end with this object, so it lives as long as the process."""
    return torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch leaves it so


def registered_operator(
    kernel: ir.KernelDef, hash: str, target: ir.Target, launch: LoadedKernel
) -> OpOverload:
    """Returns the operator `wrapper_ir_kernels::<kind>_<hash>`, which launches the kernel, and registers it
    if needed."""
    name = operator_name(kernel, hash, target)
    namespace = getattr(torch.ops, NAMESPACE)  # operators are found by name
    if getattr(namespace, name, None) is None:
        _register(name, schema_text(kernel, name), launch)
        has_effect(getattr(namespace, name).default)
    operator: OpOverload = getattr(namespace, name).default
    return operator


def schema_text(kernel: ir.KernelDef, name: str) -> str:
    """Returns the schema of a kernel's operator: its reads and writes, without results."""
    return f"{name}({', '.join(_params(kernel))}) -> ()"


def operator_name(kernel: ir.KernelDef, hash: str, target: ir.Target) -> str:
    """Returns the name of the kernel's operator, without its namespace."""
    if target.device.type == "cpu":
        return f"{kernel.kind}_{hash[:32]}"
    device = hashlib.sha256(f"{target.device} {target.arch}".encode()).hexdigest()
    return f"{kernel.kind}_{hash[:32]}_{device[:8]}"


def _register(name: str, schema: str, launch: LoadedKernel) -> None:
    library = _library()
    library.define(schema)  # type: ignore[no-untyped-call]  # torch leaves it so
    run = launch_with(launch)
    library.impl(name, run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]  # torch's
    torch.library.register_fake(f"{NAMESPACE}::{name}", _nothing, lib=library)


def launch_with(launch: LoadedKernel) -> LoadedKernel:
    """Wraps a kernel as a plain function, which torch can register."""

    def run(*args: Value) -> None:
        launch(*args)

    return run


def _nothing(*args: object) -> None:
    """Fake implementation of a kernel, which returns nothing."""


def _params(kernel: ir.KernelDef) -> list[str]:
    names = [f"p{number}_{_plain(p.name)}" for number, p in enumerate(kernel.params)]
    params = [f"{_type(p, number)} {name}" for number, (p, name) in enumerate(zip(kernel.params, names))]
    # Triton kernels have grid parameters; kernels of plug-ins have grids of any length.
    grid = getattr(kernel, "grid_params", None)
    return params + [f"SymInt g{number}" for number in range(len(grid or ()))]


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _type(param: ir.KernelParam, number: int) -> str:
    if param.kind is ir.ParamKind.SCALAR:
        if param.dtype.is_floating:
            return "float"
        return "bool" if param.dtype.value == "bool" else "SymInt"
    return f"Tensor(a{number}!)?" if param.access.writes else "Tensor?"
