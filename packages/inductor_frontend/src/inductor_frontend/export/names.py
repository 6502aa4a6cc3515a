"""Names of classes in signatures."""

from __future__ import annotations

import sys

from inductor_frontend.errors import CaptureError


def class_name(cls: type) -> str:
    """Returns `module:qualname`; raises CaptureError FE102 for a class that cannot be imported by this
    name."""
    value: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        value = getattr(value, part, None)
    if value is not cls:
        raise CaptureError(
            "FE102",
            f"class {cls.__module__}:{cls.__qualname__} cannot be imported by its name",
            hint="define it at the top of a module",
        )
    return f"{cls.__module__}:{cls.__qualname__}"
