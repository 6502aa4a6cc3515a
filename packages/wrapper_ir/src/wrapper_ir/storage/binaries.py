"""Kernels compiled ahead, as files: a table, and one file a key with its bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from wrapper_ir.errors import ArtifactError
from wrapper_ir.json_form.reading import Json, dump, each, fault, field, load, obj, only, string
from wrapper_ir.kernels import KernelBinary

__all__ = ["BINARIES_TABLE", "binaries_from_json", "binaries_to_json", "binary_files"]

BINARIES_TABLE = "binaries.json"
_FIELDS = ("runtime", "kernel", "target", "key")
_HASH = re.compile(r"[0-9a-f]{16,128}")


def _file(key: str) -> str:
    return f"binaries/{key}.bin"


def binary_files(binaries: Iterable[KernelBinary]) -> dict[str, bytes]:
    """The bytes by file name. Raises ArtifactError WIR712 for a key that is no hash, or that two different ones have."""
    files: dict[str, bytes] = {}
    for binary in binaries:
        if not _HASH.fullmatch(binary.key):
            raise ArtifactError("WIR712", f"the key of a compiled kernel is no hash: {binary.key!r}")
        if files.setdefault(_file(binary.key), binary.data) != binary.data:
            raise ArtifactError("WIR712", f"two different compiled kernels have the key {binary.key}")
    return files


def binaries_to_json(binaries: Iterable[KernelBinary]) -> str:
    """The text of `binaries.json`."""
    rows: list[Json] = [
        {"runtime": b.runtime, "kernel": b.kernel, "target": b.target, "key": b.key} for b in binaries
    ]
    return dump({"binaries": rows})


def binaries_from_json(text: str, read: Callable[[str], bytes]) -> tuple[KernelBinary, ...]:
    """The compiled kernels of a table; `read` gives the bytes of a file. Raises ParseError, and what `read` raises."""

    def row(entry: Json) -> KernelBinary:
        found = obj(entry)
        only(found, _FIELDS)
        runtime, kernel, target, key = (field(found, name, string) for name in _FIELDS)
        if not _HASH.fullmatch(key):
            fault(f"{key!r} is no hash")
        return KernelBinary(runtime=runtime, kernel=kernel, target=target, key=key, data=read(_file(key)))

    return load(text, lambda table: tuple(field(table, "binaries", lambda rows: each(rows, row))))
