"""What tests leave out where the installed torch gets it wrong."""

from __future__ import annotations

import pytest
import torch
from packaging.version import Version

__all__ = ["STORES"]

STORES = [
    False,
    pytest.param(
        True,
        marks=pytest.mark.skipif(
            Version(torch.__version__) < Version("2.13"),
            reason="torch before 2.13 writes templates that load, for what follows the product, what they have not stored",
        ),
    ),
]
"""Whether templates store through tensor descriptors."""
