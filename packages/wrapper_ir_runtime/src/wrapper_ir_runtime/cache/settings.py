"""Configuration of the cache, read from the environment here only.

| variable                  | meaning                                                 | default              |
| ------------------------- | ------------------------------------------------------- | -------------------- |
| `WRAPPER_IR_CACHE_DIR`    | root of all caches                                      | user cache directory |
| `WRAPPER_IR_CACHE_BYTES`  | limit of their total size (`500M`); evicts by last use  | `8G`                 |
| `WRAPPER_IR_CACHE_SHARED` | read-only caches: folders and URLs, separated by `,`    | none                 |
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wrapper_ir.errors import StoreError

_DEFAULT_BYTES = 8 << 30
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Locations and limits of the cache.

    `folder` is the root, which is created at the first write, for this user only. None: the user has no home
    folder. `fallback` is the root to use if `folder` cannot be written, provided that only this user may
    write it.

    `limit_bytes` limits the size of a root; each process may exceed it by a 64th before it checks. `shared`
    are read-only roots, queried if `folder` has no entry. `wait_seconds` limits the wait for another process
    that writes the same entry.
    """

    folder: Path | None
    fallback: Path | None = None
    limit_bytes: int = _DEFAULT_BYTES
    shared: tuple[str, ...] = ()
    wait_seconds: float = 600.0

    def with_root(self, folder: Path) -> CacheSettings:
        """Returns the settings with another root and its fallback."""
        root = folder.expanduser().absolute()
        return replace(self, folder=root, fallback=_fallback(root))


def read_settings(env: Mapping[str, str] | None = None) -> CacheSettings:
    """Reads the environment (default: `os.environ`). Raises StoreError WIR256."""
    source = os.environ if env is None else env
    size = source.get("WRAPPER_IR_CACHE_BYTES", "")
    folder = _root(source)
    return CacheSettings(
        folder=folder,
        fallback=_fallback(folder),
        limit_bytes=parse_size(size, "WRAPPER_IR_CACHE_BYTES") if size else _DEFAULT_BYTES,
        shared=tuple(filter(None, map(str.strip, source.get("WRAPPER_IR_CACHE_SHARED", "").split(",")))),
    )


def parse_size(text: str, where: str = "size") -> int:
    """Returns bytes from `4096`, `500M` or `1.5G`, in powers of 1024.

    Raises StoreError WIR256 for other texts; `where` names the source of the text.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise StoreError("WIR256", f"{where}: {text!r} is not a size", hint="write 4096, 500M or 8G")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def _root(env: Mapping[str, str]) -> Path | None:
    try:
        if folder := env.get("WRAPPER_IR_CACHE_DIR"):
            return Path(folder).expanduser().absolute()
        base = env.get("XDG_CACHE_HOME")
        return (Path(base).absolute() if base else Path.home() / ".cache") / "wrapper-ir"
    except RuntimeError:  # no home folder: neither HOME nor an entry of the user database
        return None


def _fallback(folder: Path | None) -> Path | None:
    """Returns the fallback of a root. Roots do not share fallbacks, so that entries of one are not found
    under another."""
    digest = hashlib.sha256(os.fsencode(folder or "")).hexdigest()[:8]
    try:
        return Path(tempfile.gettempdir()) / f"wrapper-ir-{_user()}-{digest}"
    except FileNotFoundError:  # no temporary folder that can be written
        return None


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
