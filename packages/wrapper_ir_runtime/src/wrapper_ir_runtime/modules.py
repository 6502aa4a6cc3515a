"""Finds Python modules that kernels depend on, without importing them."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

_LOCAL_BUILD = "+"
"""Starts the local part of a version (`+cpu`, `+cu130`). Builds of one version have the same Python
functions."""


def module_file(name: str) -> Path | None:
    """Returns the source file of a module (`torch._inductor.runtime.triton_helpers`), or None if it has
    none."""
    top, *rest = name.split(".")
    try:
        # finding a top-level package imports nothing; finding a submodule would import its parents
        spec = importlib.util.find_spec(top)
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
    """Returns the sha256 (hex) of a module's source file, or '' if it has none."""
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
    """Cached while the file is unchanged: hundreds of kernels of a model depend on it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def module_origin(name: str) -> str:
    """Returns the distribution of a module and its version, such as `torch 2.13.0`; '' if unknown."""
    top = name.partition(".")[0]
    try:
        return f"{top} {metadata.version(top).partition(_LOCAL_BUILD)[0]}"
    except metadata.PackageNotFoundError:
        return ""
