"""Fixtures that the tests of debugging commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.debugger.transcript import capture_model
from wrapper_ir.artifact import Artifact


@pytest.fixture(scope="session")
def good() -> Callable[[str], Artifact]:
    """The program of a model, captured once."""
    return functools.cache(capture_model)
