"""Kernels as operators with a schema and a fake implementation, so that torch can trace their calls.

Torch's registry of operators belongs to the process. A kernel is entered once, under its content hash.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import torch

from fx_converter._compat import has_effect
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

NAMESPACE = "wrapper_ir_kernels"


@lru_cache(maxsize=1)
def _library() -> torch.library.Library:
    """Registrations end with the object that made them, so it lives as long as the process."""
    return torch.library.Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]  # torch leaves it so


# Any: operators take tensors and numbers
def registered_operator(kernel: ir.KernelDef, hash: str, target: ir.Target, launch: LoadedKernel) -> Any:
    """The operator `wrapper_ir_kernels::<kind>_<hash>`, which launches the kernel; registered unless it is there."""
    name = operator_name(kernel, hash, target)
    found = getattr(getattr(torch.ops, NAMESPACE), name, None)  # operators are found by name
    if found is None:
        _register(name, schema_text(kernel, name), launch)
        found = getattr(getattr(torch.ops, NAMESPACE), name)
        has_effect(found.default)
    return found.default


def schema_text(kernel: ir.KernelDef, name: str) -> str:
    """The schema of a kernel's operator: what it reads and writes, and that it returns nothing."""
    return f"{name}({', '.join(_params(kernel))}) -> ()"


def operator_name(kernel: ir.KernelDef, hash: str, target: ir.Target) -> str:
    """What the kernel's operator is called, without its namespace."""
    if target.device.type == "cpu":
        return f"{kernel.kind}_{hash[:32]}"
    device = hashlib.sha256(f"{target.device} {target.arch}".encode()).hexdigest()
    return f"{kernel.kind}_{hash[:32]}_{device[:8]}"


def _register(name: str, schema: str, launch: LoadedKernel) -> None:
    library = _library()
    library.define(schema)  # type: ignore[no-untyped-call]  # torch leaves it so
    library.impl(name, launch_with(launch), "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]  # torch leaves it so
    torch.library.register_fake(f"{NAMESPACE}::{name}", _nothing, lib=library)


def launch_with(launch: LoadedKernel) -> LoadedKernel:
    """A plain function, which is what torch registers."""

    def run(*args: Any) -> None:  # Any: tensors and numbers
        launch(*args)

    return run


def _nothing(*args: object) -> None:
    """What the kernel returns; what it writes it was given."""


def _params(kernel: ir.KernelDef) -> list[str]:
    names = [f"p{number}_{_plain(p.name)}" for number, p in enumerate(kernel.params)]
    params = [f"{_type(p, number)} {name}" for number, (p, name) in enumerate(zip(kernel.params, names))]
    grid = getattr(
        kernel, "grid_params", None
    )  # of Triton kernels; plug-ins have a launch grid of any length
    return params + [f"SymInt g{number}" for number in range(len(grid or ()))]


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _type(param: ir.KernelParam, number: int) -> str:
    if param.kind is ir.ParamKind.SCALAR:
        if param.dtype.is_floating:
            return "float"
        return "bool" if param.dtype.value == "bool" else "SymInt"
    return f"Tensor(a{number}!)?" if param.access.writes else "Tensor?"
