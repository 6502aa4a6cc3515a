"""Checks the types of a signature's fields: Python does not enforce annotations, and accepts `True` as an
index."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

from wrapper_ir import ir

_ANY = object
"""Replaces `Arg`: arguments have a separate check (WIR116)."""


def misfits(signature: ir.Signature) -> Iterator[str]:
    """Messages about objects of another type than their field: `signature.params[1] is True, not an int`."""
    yield from _dataclass(signature, "signature", ir.Signature)


@cache
def _hints(kind: type) -> Mapping[str, object]:
    return get_type_hints(kind, localns={"Arg": _ANY})


def _dataclass(value: object, place: str, kind: type) -> Iterator[str]:
    if type(value) is not kind:
        yield f"{place} is {value!r}, not a {kind.__name__}"
        return
    for name, hint in _hints(kind).items():  # type: ignore[arg-type]  # classes are hashable
        yield from _fits(getattr(value, name), f"{place}.{name}", hint)  # by the names of its fields


def _fits(value: object, place: str, hint: object) -> Iterator[str]:
    if hint is _ANY:
        return
    if get_origin(hint) is tuple:
        yield from _items(value, place, get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        yield from _any_of(value, place, get_args(hint))
    elif not isinstance(hint, type):
        raise TypeError(f"no check for fields of type {hint}")
    elif dataclasses.is_dataclass(hint):
        yield from _dataclass(value, place, hint)
    elif type(value) is not hint and not (issubclass(hint, enum.Enum) and isinstance(value, hint)):
        yield f"{place} is {value!r}, not {'an' if hint is int else 'a'} {hint.__name__}"


def _items(value: object, place: str, hint: object) -> Iterator[str]:
    if not isinstance(value, tuple) or type(value) is not tuple:
        yield f"{place} is {value!r}, not a tuple"
        return
    for number, item in enumerate(value):
        yield from _fits(item, f"{place}[{number}]", hint)


def _any_of(value: object, place: str, hints: tuple[object, ...]) -> Iterator[str]:
    """Checks a value against the member of a union that is its class, or else against the first member."""
    member = next((hint for hint in hints if type(value) is hint), hints[0])
    yield from _fits(value, place, member)
