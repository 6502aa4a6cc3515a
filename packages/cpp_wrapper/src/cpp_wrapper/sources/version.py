"""The edition of what a library says of itself: loaders refuse others."""

from __future__ import annotations

__all__ = ["METADATA_VERSION"]

METADATA_VERSION = 7
