"""Detects mutations of Python objects by a model, which torch.export ignores and a program cannot repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.trees import pack

# Any in this file: the user's objects.
_HINT = (
    "return the new value; "
    "or store it in a tensor, a buffer (register_buffer) or an argument, and write to that"
)
_TORCHS_OWN = frozenset(vars(torch.nn.Module()))
_RECURRENT = "_flat_weight"
"""Prefix of the attributes in which torch's recurrent modules list their weights, which every trace
replaces."""


class Watch:
    """Snapshot of a model's attributes and of the containers among its arguments; `check` compares with
    it."""

    def __init__(self, module: torch.nn.Module, arguments: object) -> None:
        self._module = module
        self._arguments = arguments
        self._attributes = dict(_attributes(module))
        self._contents = _contents(arguments)

    def check(self) -> None:
        """Raises CaptureError FE107 if the model changed one of them."""
        if _contents(self._arguments) != self._contents:
            raise CaptureError(
                "FE107",
                "the model changes a container among its arguments, which a program cannot",
                hint=_HINT,
            )
        for name, (mark, value) in _attributes(self._module):
            before = self._attributes.get(name)
            if before is None or before[0] != mark:
                was = "nothing" if before is None else _shown(before[1])
                raise CaptureError(
                    "FE107",
                    f"the model changes its attribute {name} ({was}, then {_shown(value)}), "
                    "which a program cannot",
                    hint=_HINT,
                )


def _contents(tree: object) -> tuple[object, ...]:
    """Returns structure and identities of the leaves: a written tensor is the same leaf."""
    leaves, spec = pytree.tree_flatten(pack(tree))
    return (spec, *(id(x) for x in leaves))


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, tuple[object, object]]]:
    """Yields (name, (mark, value)) of each plain attribute. Its mark is equal if it was not changed."""
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if name not in _TORCHS_OWN and not name.startswith(_RECURRENT):
                yield f"{prefix}.{name}" if prefix else name, (_mark(value), value)


def _mark(value: Any) -> object:
    if type(value) in (bool, int, float, str, bytes, tuple, type(None)):
        return type(value), value if type(value) is not tuple else tuple(map(id, value))
    if type(value) in (list, set):
        return id(value), tuple(map(id, value))
    if isinstance(value, Mapping):
        return id(value), tuple(value), tuple(map(id, value.values()))
    return id(value)


def _shown(value: object) -> str:
    text = repr(value) if type(value) in (bool, int, float, str, type(None)) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."
