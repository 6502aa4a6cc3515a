"""Finds headers of other packages that kernels include, and compares them with those at capture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from cpp_wrapper.errors import CompileError
from wrapper_ir import ir


def header_hashes(kernels: Iterable[ir.CppKernel], folders: Sequence[Path]) -> dict[str, str]:
    """Returns the SHA-256 (hex) of each header that a kernel requires, by name, as found in `folders`.

    Raises CompileError CPP105 for a missing one.
    """
    hashes: dict[str, str] = {}
    for kernel in kernels:
        for required in kernel.requires:
            if required.name in hashes:
                continue
            path = next((p for f in folders if (p := f / required.name).is_file()), None)
            if path is None:
                origin = f" (of {required.origin})" if required.origin else ""
                raise CompileError(
                    "CPP105",
                    f"kernel '{kernel.name}' includes {required.name}{origin}, which is not installed here",
                    "install what has that header, or capture the model again with what is installed",
                )
            hashes[required.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


def changed_headers(kernel: ir.CppKernel, hashes: dict[str, str]) -> str:
    """Returns the headers that differ from those at capture, as text for a message; '' for none."""
    changed = [r for r in kernel.requires if r.sha256 not in ("", hashes[r.name])]
    return ", ".join(f"{r.name} of {r.origin or 'another version'}" for r in changed)
