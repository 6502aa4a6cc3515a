"""What py_wrapper reads from the environment."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings", "read_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`cache` is the folder of modules that `compile` writes (`PY_WRAPPER_CACHE_DIR`, or `XDG_CACHE_HOME`)."""

    cache: Path


def read_settings() -> Settings:
    """The settings of this moment."""
    own, shared = os.environ.get("PY_WRAPPER_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Settings(cache=Path(own))
    if shared:
        return Settings(cache=Path(shared) / "wrapper_ir" / "python")
    home = os.path.expanduser("~")
    base = Path(home) / ".cache" if home != "~" else Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"
    return Settings(cache=base / "wrapper_ir" / "python")
