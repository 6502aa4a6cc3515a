"""Descriptions of a program's inputs that each call is checked against, without a tensor library.

`analysis.inputs` derives the descriptions from `main`; engines spell them in their own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInput:
    """An argument that is a tensor in plain strided memory. `text` is its type as programs write it, `dtype` and `device` in
    the same spelling. None in `sizes` and `strides` (in elements) stands for a number that depends on a symbol. With `or_cpu` a
    tensor in the CPU's memory will do as well. `apart` are positions among the inputs of those that must not lie in this
    one's storage: the program resizes it before their last use."""

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
        """The strides that matter: those of dimensions that are longer than 1, in tensors that have elements."""
        if 0 in self.sizes:
            return (None,) * len(self.sizes)
        return tuple(None if n == 1 else s for n, s in zip(self.sizes, self.strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberInput:
    """An argument that is a number: `kind` is `int` (of 64 bits), `float` or `bool`, and no other class will do."""

    name: str
    kind: str


Input = TensorInput | NumberInput


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageInput:
    """An argument whose storage must hold all of its elements. `nbytes` are those that it needs from its first element on, None
    where its sizes and strides tell; `itemsize` those of an element."""

    name: str
    nbytes: int | None
    itemsize: int


def extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last of a tensor, both counted."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """What a tensor library says about a tensor. `special` tells in words what makes it something else than plain memory
    (sparse, lazily conjugated, a class of its own), `hint` the way out; both are empty for a plain tensor. `layout` is `strided`
    or another name; `room` are the bytes of its storage from its first element on, None where nothing tells, `start` those
    before."""

    dtype: str
    device: str
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    special: str = ""
    hint: str = ""
    layout: str = "strided"
    room: int | None = None
    start: int = 0
