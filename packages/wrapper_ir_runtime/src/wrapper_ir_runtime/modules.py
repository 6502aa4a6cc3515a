"""Python modules that kernels need, found without importing them."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

_LOCAL_BUILD = "+"
"""Starts the local part of a version (`+cpu`, `+cu130`). Builds of one version have the same Python functions."""


def module_file(name: str) -> Path | None:
    """The source file of a module (`torch._inductor.runtime.triton_helpers`); None where there is none."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(
            top
        )  # finding a top-level package imports nothing; finding a submodule would import its parents
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin is not None and spec.has_location else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder, *rest)
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
    return None


def module_hash(name: str) -> str:
    """Sha256 (hex) of a module's source file; '' where there is none."""
    path = module_file(name)
    try:
        if path is None:
            return ""
        about = path.stat()
        return _hash_of(path, about.st_mtime_ns, about.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _hash_of(path: Path, mtime_ns: int, size: int) -> str:
    """Read once as long as the file is the same: a model has hundreds of kernels that need it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def module_origin(name: str) -> str:
    """The distribution that a module is part of, and its version: `torch 2.13.0`; '' where that is not known."""
    top = name.partition(".")[0]
    try:
        return f"{top} {metadata.version(top).partition(_LOCAL_BUILD)[0]}"
    except metadata.PackageNotFoundError:
        return ""
