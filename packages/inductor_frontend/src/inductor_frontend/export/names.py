"""Classes by name, as signatures know them."""

from __future__ import annotations

import sys

from inductor_frontend.errors import CaptureError


def class_name(cls: type) -> str:
    """`module:qualname`; raises CaptureError FE102 for a class that cannot be imported by it."""
    found: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)  # the parts of a qualified name
    if found is not cls:
        raise CaptureError(
            "FE102",
            f"class {cls.__module__}:{cls.__qualname__} cannot be imported by its name",
            hint="define it at the top of a module",
        )
    return f"{cls.__module__}:{cls.__qualname__}"
