"""Both forms of graph modules."""

from __future__ import annotations

from typing import Any

import pytest

from fx_converter.kernels import KernelCalls

FORMS: tuple[KernelCalls, ...] = ("direct", "hop")

both_forms = pytest.mark.parametrize("form", FORMS)


def plain(values: Any) -> Any:
    """Floats that are not a number become text, so that they are equal to themselves."""
    return [repr(v) if isinstance(v, float) and v != v else v for v in values]
