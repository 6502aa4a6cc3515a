"""Finds and calls the function that makes a model for `wir capture`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click

__all__ = ["call_factory"]


# Any: models and their arguments are the frontend's own world.
def call_factory(spec: str) -> tuple[Any, tuple[Any, ...], Mapping[str, Any], Mapping[str, Any]]:
    """(model, args, kwargs, options) from `module:function`; the working directory is importable."""
    module_name, _, function_name = spec.partition(":")
    if not function_name:
        raise click.BadParameter(f"expected MODULE:FUNCTION, got {spec!r}")
    sys.path.insert(0, "")
    try:
        factory = getattr(importlib.import_module(module_name), function_name)  # named on the command line
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"cannot import {spec!r}: {error}") from error
    finally:
        sys.path.remove("")
    made = factory()
    if not isinstance(made, tuple) or not 2 <= len(made) <= 4 or not isinstance(made[1], tuple):
        raise click.BadParameter(f"{spec} must return (model, args[, kwargs[, options]]), args being a tuple")
    model, args, kwargs, options = (*made, {}, {})[:4]
    return model, args, kwargs or {}, options or {}
