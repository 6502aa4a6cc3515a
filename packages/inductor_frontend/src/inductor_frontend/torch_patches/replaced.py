"""Replacing what the table lists, for a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._C import DispatchKey

from inductor_frontend.torch_patches.table import Change, PatchPoint

_NOTHING = object()
_Before = tuple[Any, str, object]  # Any: an object of torch
"""An object, a name, and what the object itself has there; `_NOTHING`: it inherits it, or has none."""


@contextmanager
def replaced(*changes: Change) -> Iterator[None]:
    """While the context is active, these attributes have other values. Afterwards all are as before: after errors, and
    after an interrupt while some are replaced and others not yet, or while they are restored. Raises AttributeError for an
    attribute that this torch lacks and the table does not say it may."""
    found = [(change, change.point.find()) for change in changes]
    before: list[_Before] = []
    try:
        try:
            for change, owner in found:
                for name, value in change.values.items():
                    _replace(change.point, owner, name, value, before)
            yield
        finally:
            _restore(before)
    finally:
        _restore(before)  # the rest, where the first was interrupted


@contextmanager
def replaced_kernels(*kernels: tuple[PatchPoint, DispatchKey, Callable[..., Any]]) -> Iterator[None]:
    """While the context is active, these operators (points at `py_kernels`) have other kernels where Python dispatches."""
    operators = [point.find() for point, *_ in kernels]
    changes = [
        point.by(py_kernels={**op.py_kernels, key: kernel})
        for op, (point, key, kernel) in zip(operators, kernels)
    ]
    try:
        with replaced(*changes):
            for op in operators:
                op._dispatch_cache.clear()
            yield
    finally:
        for op in operators:
            op._dispatch_cache.clear()


def _replace(point: PatchPoint, owner: Any, name: str, value: object, before: list[_Before]) -> None:
    if not hasattr(owner, name) and not point.adds:
        if point.may_lack:
            return
        raise AttributeError(f"{point.owner} has no {name}")
    before.append((owner, name, vars(owner).get(name, _NOTHING)))  # first: what is noted can be put back
    setattr(owner, name, value)


def _restore(before: list[_Before]) -> None:
    """Puts everything back, the last first, and forgets it only then."""
    while before:
        owner, name, value = before[-1]
        if value is not _NOTHING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
        before.pop()
