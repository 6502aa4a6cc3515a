"""The headers that kernels need from outside the compiler: found here, and held against those of the capture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from cpp_wrapper.errors import CompileError
from wrapper_ir import ir


def header_hashes(kernels: Iterable[ir.CppKernel], folders: Sequence[Path]) -> dict[str, str]:
    """Sha256 (hex) by name of each header that any of the kernels requires, as the compiler finds it in `folders`.

    Raises CompileError CPP105 for one that is not there.
    """
    found: dict[str, str] = {}
    for kernel in kernels:
        for required in kernel.requires:
            if required.name in found:
                continue
            path = next((p for f in folders if (p := f / required.name).is_file()), None)
            if path is None:
                origin = f" (of {required.origin})" if required.origin else ""
                raise CompileError(
                    "CPP105",
                    f"kernel '{kernel.name}' includes {required.name}{origin}, which is not installed here",
                    "install what has that header, or capture the model again with what is installed",
                )
            found[required.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def changed_headers(kernel: ir.CppKernel, hashes: dict[str, str]) -> str:
    """What the kernel was written for that is otherwise here, for a message; '' for nothing."""
    changed = [r for r in kernel.requires if r.sha256 not in ("", hashes[r.name])]
    return ", ".join(f"{r.name} of {r.origin or 'another version'}" for r in changed)
