"""Finds and calls the function that creates a model, for `wir capture`."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TypeVar

import click

T = TypeVar("T")


def call_factory(spec: str) -> tuple[object, tuple[object, ...], Mapping[str, object], Mapping[str, object]]:
    """Calls `module:function` and returns (model, args, kwargs, options); the working directory is
    importable.

    Raises click.UsageError if the function does not exist or returns something else. An error in the module
    or the function becomes one too, with the traceback of the user's own frames.
    """
    module_name, _, function_name = spec.partition(":")
    if not function_name:
        raise click.BadParameter(f"expected MODULE:FUNCTION, got {spec!r}")
    sys.path.insert(0, "")
    try:
        module = _own(spec, lambda: importlib.import_module(module_name))
        factory = getattr(module, function_name, None)
        if not callable(factory):
            raise click.BadParameter(f"module {module_name!r} has no function {function_name!r}")
        result = _own(spec, factory)
    finally:
        sys.path.remove("")
    if not isinstance(result, tuple) or not 2 <= len(result) <= 4 or not isinstance(result[1], tuple):
        raise click.BadParameter(f"{spec} must return (model, args[, kwargs[, options]]), args being a tuple")
    model, args, kwargs, options = (*result, {}, {})[:4]
    return model, args, kwargs or {}, options or {}


def _own(spec: str, call: Callable[[], T]) -> T:
    try:
        return call()
    # raised by the user's code
    except Exception as error:
        if isinstance(error, ImportError) and error.name == spec.partition(":")[0]:
            raise click.BadParameter(f"cannot import {spec!r}: {error}") from error
        raise click.UsageError(f"{spec} failed:\n{_frames(error)}") from error


def _frames(error: Exception) -> str:
    """Formats the traceback without the frames of this package and of Python's import."""
    report = traceback.TracebackException.from_exception(error)
    own = [
        f for f in report.stack if f.filename != __file__ and not f.filename.startswith("<frozen importlib")
    ]
    own = [f for f in own if not f.filename.endswith("importlib/__init__.py")]
    report.stack = traceback.StackSummary.from_list(own)
    return "".join(report.format()).rstrip()
