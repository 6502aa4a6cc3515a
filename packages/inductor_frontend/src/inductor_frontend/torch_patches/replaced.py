"""Replaces patch points of the table temporarily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch._C import DispatchKey

from inductor_frontend.torch_patches.table import Change, PatchPoint

_NOTHING = object()
_Before = tuple[object, str, object]  # an object of torch, the name of its attribute, the value
"""An object, a name, and the object's own attribute of that name; `_NOTHING` if it is inherited or absent."""


@contextmanager
def replaced(*changes: Change) -> Iterator[None]:
    """Replaces attributes while the context is active.

    All are restored on exit: after errors, and after an interrupt that occurs while they are being replaced
    or restored. Raises AttributeError for an attribute that this torch lacks, unless the table allows it
    (`may_lack`).
    """
    owners = [(change, change.point.find()) for change in changes]
    before: list[_Before] = []
    try:
        try:
            for change, owner in owners:
                for name, value in change.values.items():
                    _replace(change.point, owner, name, value, before)
            yield
        finally:
            _restore(before)
    finally:
        _restore(before)  # the rest, if the first was interrupted


@contextmanager
def replaced_kernels(*kernels: tuple[PatchPoint, DispatchKey, Callable[..., object]]) -> Iterator[None]:
    """Replaces kernels of operators in Python dispatch while the context is active; points refer to
    `py_kernels`."""
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


def _replace(point: PatchPoint, owner: object, name: str, value: object, before: list[_Before]) -> None:
    if not hasattr(owner, name) and not point.adds:
        if point.may_lack:
            return
        raise AttributeError(f"{point.owner} has no {name}")
    # Appended before the change, so that an interrupt in between leaves nothing to restore wrongly.
    before.append((owner, name, vars(owner).get(name, _NOTHING)))
    setattr(owner, name, value)


def _restore(before: list[_Before]) -> None:
    """Restores all attributes, last first. Each is removed from the list only after it has been restored."""
    while before:
        owner, name, value = before[-1]
        if value is not _NOTHING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)
        before.pop()
