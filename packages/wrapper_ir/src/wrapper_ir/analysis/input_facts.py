"""Descriptions of a program's inputs that each call is checked against, independent of a tensor library.

`analysis.inputs` derives them from `main`; each engine emits or interprets the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInput:
    """A tensor argument in plain strided memory.

    `text` is its type in the text form of programs, as are `dtype` and `device`. None in `sizes` and
    `strides` (in elements) is a number that depends on a symbol. If `or_cpu`, a tensor in the CPU's memory is
    accepted too. `apart` are the positions of inputs that must not share this one's storage, because the
    program resizes it before their last use.
    """

    name: str
    text: str
    dtype: str
    device: str
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    or_cpu: bool = False
    apart: tuple[int, ...] = ()

    @property
    def fixed_strides(self) -> tuple[int | None, ...]:
        """The strides to check: None for dimensions of size 1, and for all dimensions of an empty tensor."""
        if 0 in self.sizes:
            return (None,) * len(self.sizes)
        return tuple(None if n == 1 else s for n, s in zip(self.sizes, self.strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberInput:
    """A number argument: `kind` is `int` (64 bits), `float` or `bool`; values of other classes are
    refused."""

    name: str
    kind: str


Input = TensorInput | NumberInput


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageInput:
    """An argument whose storage must contain all of its elements.

    `nbytes` is the number of bytes needed from the first element on; None if it follows from the argument's
    sizes and strides. `itemsize` is in bytes.
    """

    name: str
    nbytes: int | None
    itemsize: int


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """The number of elements from the first to the last of a tensor, inclusive; 0 for an empty one."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """Facts that a tensor library reports about a tensor.

    `special` describes why it is not plain memory (sparse, lazily conjugated, a subclass), and `hint` is a
    workaround; both are empty for a plain tensor. `layout` is `strided` or another name. `room` is the number
    of bytes in its storage from its first element on, None if unknown; `start` is the number before.
    """

    dtype: str
    device: str
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    special: str = ""
    hint: str = ""
    layout: str = "strided"
    room: int | None = None
    start: int = 0
