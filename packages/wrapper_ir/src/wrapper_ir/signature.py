"""What stands around a program: the structure of the model's inputs and outputs, and how leaves map to `main`.

A program's `main` takes and returns flat values. The signature says how the model's own arguments become those
values and how results become the model's own output structure, so that every emitter builds the same callable.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.ops import Arg

__all__ = [
    "ConstantOutput",
    "InputAlias",
    "InputOutput",
    "OutputBinding",
    "ResultOutput",
    "Signature",
    "StaticInput",
    "TreeKind",
    "TreeSpec",
    "WriteBack",
]


class TreeKind(enum.Enum):
    """Containers of input and output structures."""

    LEAF = "leaf"
    NONE = "none"
    TUPLE = "tuple"
    LIST = "list"
    DICT = "dict"
    NAMEDTUPLE = "namedtuple"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpec:
    """A nested structure; leaves are numbered in depth-first order.

    `keys` are a dict's keys in order (JSON text of each key) or a namedtuple's fields; `type_name` and `context`
    name a registered custom or namedtuple class (`module:qualname`, and its serialised context as JSON).
    """

    kind: TreeKind
    children: tuple[TreeSpec, ...] = ()
    keys: tuple[str, ...] = ()
    type_name: str = ""
    context: str = ""

    @property
    def num_leaves(self) -> int:
        """How many leaves the structure has."""
        if self.kind is TreeKind.LEAF:
            return 1
        return sum(child.num_leaves for child in self.children)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticInput:
    """An input leaf that capture baked in: a call must pass an equal value (`value` as a literal argument)."""

    leaf: int
    value: Arg


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAlias:
    """Marks that result `result` shares storage with input leaf `leaf` (for the reader; the program says how)."""

    result: int
    leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOutput:
    """An output leaf that is result `index` of `main`."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """An output leaf that is the very object passed as input leaf `leaf`."""

    leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantOutput:
    """An output leaf with a fixed literal value (None, a number, a string)."""

    value: Arg


OutputBinding = ResultOutput | InputOutput | ConstantOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBack:
    """After the call, result `result` of `main` is copied into input leaf `leaf`."""

    result: int
    leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The whole calling convention of an artifact.

    `inputs` is a TUPLE of (args TUPLE, kwargs DICT); `params[i]` is the input leaf bound to `main`'s i-th parameter.
    `outputs` is the result's structure; `bindings[k]` says what output leaf k is. `names` are readable names of the
    input leaves, for messages.
    """

    inputs: TreeSpec
    params: tuple[int, ...]
    outputs: TreeSpec
    bindings: tuple[OutputBinding, ...]
    names: tuple[str, ...] = ()
    statics: tuple[StaticInput, ...] = ()
    write_backs: tuple[WriteBack, ...] = ()
    aliases: tuple[InputAlias, ...] = ()
