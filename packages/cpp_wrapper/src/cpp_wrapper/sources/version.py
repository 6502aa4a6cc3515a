"""The edition of what a library says of itself: loaders refuse others."""

from __future__ import annotations

METADATA_VERSION = 8
NATIVE = "native"
"""The name of the native runtime in `CppOptions.runtime` and in metadata."""
