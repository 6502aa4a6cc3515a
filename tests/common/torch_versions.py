"""Differences of tests by the version of torch: skips for torch's errors, and goldens of other schedules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from packaging.version import Version

_INSTALLED = Version(torch.__version__)
_OWN_GOLDENS = ("2.15",)


def since(version: str) -> bool:
    """Returns whether the installed torch is that version or newer."""
    return Version(version) <= _INSTALLED


STORES = [
    False,
    pytest.param(
        True,
        marks=pytest.mark.skipif(
            not since("2.13"),
            reason="torch before 2.13 writes templates that load, for what follows the matmul, what they have not stored",
        ),
    ),
]
"""True if templates store through tensor descriptors."""

needs_any_slice = pytest.mark.skipif(
    not since("2.12"),
    reason="torch before 2.12 lowers slices of a dimension without bounds only where sizes have hints",
)


def golden_file(path: Path) -> Path:
    """Returns the golden file for the installed torch.

    It is in a folder `torch-VERSION` beside `path` if that version schedules or names buffers differently.
    """
    for version in _OWN_GOLDENS:
        own = path.parent / f"torch-{version}" / path.name
        if since(version) and own.exists():
            return own
    return path
