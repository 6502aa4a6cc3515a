"""What depends on the version of Triton. Importing this module loads Triton, which takes a moment."""

from __future__ import annotations

import triton

__all__ = ["triton_version"]


def triton_version() -> str:
    """The compiler's version, as binaries carry it."""
    version: str = triton.__version__
    return version
