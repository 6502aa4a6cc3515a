"""Kernels as files: a table (`kernels.json`), one source file each (`kernels/`), and compiled ones
(`binaries/`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError, ParseError
from wrapper_ir.json.decode import each, field, load, obj, string
from wrapper_ir.json.model_codecs import decode, decode_kernel, encode, encode_kernel
from wrapper_ir.support.files import opened, read_text, replacing
from wrapper_ir.support.json_value import Json

TABLE = "kernels.json"
FOLDER = "kernels"
_MAX_NAME = 60


def short_name(name: str) -> str:
    """Returns a kernel's name. The middle of a long name is omitted; the number at its end is kept."""
    if len(name) <= _MAX_NAME:
        return name
    stem, _, number = name.rpartition("_")
    beginning = stem[: _MAX_NAME - 10].rpartition("_")[0] or stem[: _MAX_NAME - 15]
    return f"{beginning}_etc_{number[-9:]}"


def kernel_file_names(kernels: Sequence[ir.KernelDef]) -> dict[str, str]:
    """Returns the file of each kernel that has a text, by kernel name, relative to the module.

    File names are distinct also on file systems that ignore case.
    """
    names: dict[str, str] = {}
    used_names: set[str] = set()
    for kernel in kernels:
        stem = "".join(
            c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in short_name(kernel.name)
        )
        suffix = ir.source_suffix(kernel)
        if not suffix:
            continue
        name, number = f"{stem}{suffix}", 0
        while name.lower() in used_names:
            number += 1
            name = f"{stem}_{number}{suffix}"
        used_names.add(name.lower())
        names[kernel.name] = f"{FOLDER}/{name}"
    return names


def kernel_table(kernels: Sequence[ir.KernelDef], target: ir.Target) -> str:
    """Returns the text of `kernels.json`."""
    files = kernel_file_names(kernels)
    table = {
        "device": encode(ir.Device, target.device),
        "arch": target.arch,
        "kernels": [{**encode_kernel(ir.with_source(k, "")), "file": files.get(k.name)} for k in kernels],
    }
    return json.dumps(table, indent=1) + "\n"


def read_kernels(folder: Path) -> tuple[ir.Target, tuple[ir.KernelDef, ...]]:
    """Returns the target and the kernels of a folder; raises ExecutionError WIR929 for an unreadable
    table."""
    with _readable():
        return load(read_text(folder / TABLE), lambda table: _read(folder, table))


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, ParseError) as error:
        raise ExecutionError(
            "WIR929",
            f"the kernels beside the module cannot be read: {error}",
            hint=f"{TABLE} and {FOLDER}/ belong to it",
        ) from error


def write_binaries(folder: Path, binaries: Sequence[ir.KernelBinary]) -> list[Path]:
    """Writes kernels that were compiled ahead into a folder, the table last; returns the files.

    It writes nothing if there are no such kernels. Raises ArtifactError WIR712.
    """
    from wrapper_ir.artifact.file.binaries import BINARIES_TABLE, binaries_to_json, binary_files

    files = {folder / name: data for name, data in binary_files(binaries).items()}
    if files:
        files[folder / BINARIES_TABLE] = binaries_to_json(binaries).encode()
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            Path(temporary).write_bytes(data)
    return list(files)


def read_binaries(folder: Path, kernels: Iterable[ir.KernelDef]) -> tuple[ir.KernelBinary, ...]:
    """Returns the compiled kernels of a folder for `kernels`; raises ExecutionError WIR929 if they are
    unreadable."""
    from wrapper_ir.artifact.file.binaries import BINARIES_TABLE, binaries_from_json

    table = folder / BINARIES_TABLE
    if not table.exists():
        return ()
    with _readable():
        return binaries_from_json(read_text(table), lambda name: _bytes(folder / name), kernels)


def _bytes(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _read(folder: Path, table: dict[str, Json]) -> tuple[ir.Target, tuple[ir.KernelDef, ...]]:
    target = ir.Target(
        device=field(table, "device", partial(decode, ir.Device)), arch=field(table, "arch", string)
    )
    return target, field(table, "kernels", lambda k: each(k, lambda one: _kernel(folder, obj(one))))


def _kernel(folder: Path, entry: dict[str, Json]) -> ir.KernelDef:
    kernel = decode_kernel({name: x for name, x in entry.items() if name != "file"})
    file = entry.get("file")
    return kernel if file is None else ir.with_source(kernel, read_text(folder / string(file)))
