"""Attributes of the objects of Triton's interpreter, which has no annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

# Any: elements of any type
Array: TypeAlias = npt.NDArray[Any]


class ElementType(Protocol):
    """An element type of Triton, or a block of it."""

    name: str

    @property
    def scalar(self) -> ElementType:
        """The element type of a block."""


class Handle(Protocol):
    """A value of the interpreter: its elements, in a numpy type that holds them, and their type."""

    data: Array
    dtype: ElementType


class Tensor(Protocol):
    """A tensor of `triton.language` in the interpreter."""

    handle: Handle
    dtype: ElementType


Tensors: TypeAlias = tuple[Tensor, ...]
Combine: TypeAlias = Callable[..., Tensor | Tensors]
"""A combining function, from tensors of both sides to tensors."""


class Builder(Protocol):
    """Methods of the interpreter's builder that are replaced."""

    cast_impl: Callable[[Handle, ElementType], Handle]
    create_fp_to_fp: Callable[[Handle, ElementType, object], Handle]
    binary_op: Callable[[Handle, Handle, object], Handle]
    unary_op: Callable[[Handle, object], Handle]
    create_dot: Callable[..., Handle]
    create_atomic_rmw: Callable[..., Handle]
    create_extern_elementwise: Callable[[str, str, str, list[Handle], ElementType, bool], Handle]
    get_bf16: Callable[[float], Handle]
