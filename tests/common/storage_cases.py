"""Tensors whose storages contain all of their elements, and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def cut(nbytes: int, offset: int = 0) -> Tensor:
    """Eight elements of 4 bytes after `offset` others, in a storage of so many bytes."""
    return _resized(torch.arange(8.0 + offset)[offset:].reshape(4, 2), nbytes)


def _resized(made: Tensor, nbytes: int) -> Tensor:
    made.untyped_storage().resize_(nbytes)
    return made


HELD: Mapping[str, Callable[[], Tensor]] = {
    "whole": lambda: cut(32),
    "offset": lambda: cut(44, 3),
    "empty": lambda: torch.empty(0, 3),
    "empty at the end": lambda: torch.ones(4)[4:],
    "scalar": lambda: torch.ones(()),
    "expanded": lambda: torch.ones(3).expand(5, 3),
    "complex": lambda: torch.ones(3, dtype=torch.complex64),
    "parameter": lambda: nn.Parameter(torch.ones(3)),
}
SHORT: Mapping[str, Callable[[], Tensor]] = {
    "released": lambda: cut(0),
    "cut": lambda: cut(31),
    "cut after an offset": lambda: cut(43, 3),
    "cut in one element": lambda: _resized(torch.ones(1), 3),
    "expanded over less": lambda: _resized(torch.ones(1, 2).expand(5, 2), 4),
}
