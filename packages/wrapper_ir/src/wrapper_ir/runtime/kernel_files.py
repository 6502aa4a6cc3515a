"""Kernels as files: `kernels.json` describes them, their sources lie in `kernels/`, one file each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wrapper_ir.errors import ExecutionError
from wrapper_ir.kernels import Access, CppKernel, ForeignKernel, KernelDef, KernelParam, ParamKind
from wrapper_ir.program import Target
from wrapper_ir.types import Device, DType

__all__ = [
    "FOLDER",
    "TABLE",
    "kernel_file_names",
    "kernel_source",
    "kernel_table",
    "read_kernels",
    "short_name",
]

TABLE = "kernels.json"
FOLDER = "kernels"
_MAX_NAME = 60


def short_name(name: str) -> str:
    """A kernel's name with its middle left out where it is very long; the number at its end is kept."""
    if len(name) <= _MAX_NAME:
        return name
    stem, _, number = name.rpartition("_")
    kept = stem[: _MAX_NAME - 10].rpartition("_")[0] or stem[: _MAX_NAME - 15]
    return f"{kept}_etc_{number[-9:]}"


def kernel_source(kernel: KernelDef) -> str:
    """The text that goes into the kernel's own file."""
    match kernel:
        case CppKernel():
            return kernel.source
        case ForeignKernel():
            return kernel.payload


def kernel_file_names(kernels: Sequence[KernelDef]) -> dict[str, str]:
    """File by kernel name, relative to the module; distinct also where case is ignored."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for kernel in kernels:
        stem = "".join(
            c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in short_name(kernel.name)
        )
        suffix = ".cpp" if isinstance(kernel, CppKernel) else ".txt"
        name, number = f"{stem}{suffix}", 0
        while name.lower() in taken:
            number += 1
            name = f"{stem}_{number}{suffix}"
        taken.add(name.lower())
        names[kernel.name] = f"{FOLDER}/{name}"
    return names


def kernel_table(kernels: Sequence[KernelDef], target: Target) -> str:
    """The text of `kernels.json`."""
    files = kernel_file_names(kernels)
    table = {
        "device": [target.device.type, target.device.index],
        "arch": target.arch,
        "kernels": [{**_head(kernel), "file": files[kernel.name]} for kernel in kernels],
    }
    return json.dumps(table, indent=1) + "\n"


def _head(kernel: KernelDef) -> dict[str, object]:
    params = [[p.name, p.kind.value, p.dtype.value, p.access.value, list(p.may_alias)] for p in kernel.params]
    head: dict[str, object] = {"name": kernel.name, "kind": kernel.kind, "params": params}
    match kernel:
        case CppKernel():
            return head | {"entry": kernel.entry, "isa": list(kernel.isa)}
        case ForeignKernel():
            return head | {"runtime": kernel.runtime}


def read_kernels(folder: Path) -> tuple[Target, tuple[KernelDef, ...]]:
    """The target and the kernels of a folder; raises ExecutionError WIR929 for a table that cannot be read."""
    try:
        table = json.loads((folder / TABLE).read_text(encoding="utf-8"))
        kind, index = table["device"]
        target = Target(device=Device(kind, index), arch=table["arch"])
        return target, tuple(_kernel(folder, entry) for entry in table["kernels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExecutionError(
            "WIR929",
            f"the kernels beside the module cannot be read: {error}",
            hint=f"{TABLE} and {FOLDER}/ belong to it",
        ) from error


def _kernel(folder: Path, entry: Mapping[str, Any]) -> KernelDef:  # Any: JSON
    params = tuple(
        KernelParam(
            name=name,
            kind=ParamKind(kind),
            dtype=DType(dtype),
            access=Access(access),
            may_alias=tuple(may_alias),
        )
        for name, kind, dtype, access, may_alias in entry["params"]
    )
    source = (folder / entry["file"]).read_text(encoding="utf-8")
    if entry["kind"] == CppKernel.kind:
        return CppKernel(
            name=entry["name"], params=params, source=source, entry=entry["entry"], isa=tuple(entry["isa"])
        )
    return ForeignKernel(name=entry["name"], params=params, runtime=entry["runtime"], payload=source)
