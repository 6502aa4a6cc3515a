"""Instruction sets that operators of the native runtime have code for."""

from __future__ import annotations

import pytest

from cpp_wrapper.kernels.isa import ISAS, host_features

GENERIC = "generic"
_OF_THIS_MACHINE = [name for name in ("avx512", "avx2") if ISAS[name].needs <= host_features()] + [GENERIC]
_MARKS = {GENERIC: pytest.mark.slow}
LEVELS = [
    _OF_THIS_MACHINE[0],
    *(pytest.param(n, marks=_MARKS.get(n, pytest.mark.conformance)) for n in _OF_THIS_MACHINE[1:]),
]
"""The levels that this machine runs; only tests of the highest are quick, those between take long."""


def flags_of(level: str) -> tuple[str, ...]:
    """Returns the compiler flags of a level."""
    return ("-fopenmp", "-O2", *(ISAS[level].flags if level in ISAS else ()))
