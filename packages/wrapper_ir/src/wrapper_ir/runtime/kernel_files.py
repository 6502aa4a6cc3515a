"""Kernels as files: `kernels.json` describes them, their sources lie in `kernels/`, one file each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from wrapper_ir.errors import ExecutionError, ParseError
from wrapper_ir.json_form.devices import decode_device, encode_device
from wrapper_ir.json_form.kernels import decode_kernel, encode_kernel
from wrapper_ir.json_form.reading import Json, each, field, load, member, obj, string
from wrapper_ir.kernels import CppKernel, ForeignKernel, KernelDef, TritonKernel
from wrapper_ir.program import Target

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
_SUFFIXES = {CppKernel.kind: ".cpp", TritonKernel.kind: ".py", ForeignKernel.kind: ".txt"}
_TEXTS = {CppKernel.kind: "source", TritonKernel.kind: "source", ForeignKernel.kind: "payload"}
"""The field that holds the text, by kind of kernel."""


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
        case CppKernel() | TritonKernel():
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
        suffix = _SUFFIXES[kernel.kind]
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
        "device": encode_device(target.device),
        "arch": target.arch,
        "kernels": [{**_head(kernel), "file": files[kernel.name]} for kernel in kernels],
    }
    return json.dumps(table, indent=1) + "\n"


def _head(kernel: KernelDef) -> dict[str, Json]:
    """Everything but the text, which has its own file."""
    return {name: x for name, x in encode_kernel(kernel).items() if name not in _TEXTS.values()}


def read_kernels(folder: Path) -> tuple[Target, tuple[KernelDef, ...]]:
    """The target and the kernels of a folder; raises ExecutionError WIR929 for a table that cannot be read."""
    try:
        return load((folder / TABLE).read_text(encoding="utf-8"), lambda table: _read(folder, table))
    except (OSError, UnicodeDecodeError, ParseError) as error:
        raise ExecutionError(
            "WIR929",
            f"the kernels beside the module cannot be read: {error}",
            hint=f"{TABLE} and {FOLDER}/ belong to it",
        ) from error


def _read(folder: Path, table: dict[str, Json]) -> tuple[Target, tuple[KernelDef, ...]]:
    target = Target(device=field(table, "device", decode_device), arch=field(table, "arch", string))
    return target, field(table, "kernels", lambda k: each(k, lambda one: _kernel(folder, obj(one))))


def _kernel(folder: Path, entry: dict[str, Json]) -> KernelDef:
    file, kind = field(entry, "file", string), field(entry, "kind", member(_TEXTS, "kind of kernel"))
    head = {name: x for name, x in entry.items() if name != "file"}
    return decode_kernel({**head, kind: (folder / file).read_text(encoding="utf-8")})
