"""The calling convention of a program: the structure of the model's inputs and outputs, and how leaves map to
`main`.

A program's `main` accepts and returns flat values. The signature maps the model's arguments to those values
and its results to the model's output structure. It also lists effects on the caller's tensors: leaves that
are written or reshaped, outputs that are inputs or views of them, tensors that wrap others. Every emitter
builds the same callable from it (`wrapper_ir_runtime`). It is never pickled.

Leaves of the inputs are numbered depth first; the parts of unwrapped tensors follow, in the order of
`unwraps`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, overload

from wrapper_ir.ir.ops.base import Arg
from wrapper_ir.ir.types import Device

A = TypeVar("A")
B = TypeVar("B")


class TreeKind(enum.Enum):
    """Containers of input and output structures."""

    LEAF = "leaf"
    NONE = "none"
    TUPLE = "tuple"
    LIST = "list"
    DICT = "dict"
    NAMEDTUPLE = "namedtuple"
    DATACLASS = "dataclass"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSpec:
    """A nested structure; leaves are numbered in depth-first order.

    `keys` are a dict's keys in order (JSON text of each key) or the fields of a named tuple or dataclass;
    `type_name` and `context` name a registered custom, named tuple or data class (`module:qualname`, and its
    serialised context as JSON).
    """

    kind: TreeKind
    children: tuple[TreeSpec, ...] = ()
    keys: tuple[str, ...] = ()
    type_name: str = ""
    context: str = ""

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        if self.kind is TreeKind.LEAF:
            return 1
        return sum(child.num_leaves for child in self.children)


# --- arguments


class ParameterKind(enum.Enum):
    """Kinds of parameters, as in Python."""

    POSITIONAL = "positional"
    ANY = "any"
    KEYWORD = "keyword"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the model's function: calls may pass arguments as calls of the model do.

    The first parameters correspond to the positional arguments in `Signature.inputs`, those named like a
    keyword there to that keyword. The others were not passed at capture: a call may pass them only with the
    value `default`.
    """

    name: str
    kind: ParameterKind = ParameterKind.ANY
    required: bool = True
    default: Arg = None
    """Meaningful only if not `required`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticInput:
    """An input leaf that capture specialized: a call must pass an equal value (`value` as a literal
    argument)."""

    leaf: int
    value: Arg


@dataclass(frozen=True, slots=True, kw_only=True)
class SubclassSpec:
    """A class of tensors that wrap others (`__tensor_flatten__` and `__tensor_unflatten__` of torch).

    `type_name` is `module:qualname`, `attributes` name the wrapped tensors, `context` is the class's own
    context (JSON in the form of `wrapper_ir_runtime.subclasses`). `sizes` and `strides` are those of the
    wrapper, in elements; None is a number that may differ between calls.
    """

    type_name: str
    attributes: tuple[str, ...]
    context: str = "null"
    sizes: tuple[int | None, ...] = ()
    strides: tuple[int | None, ...] = ()

    @property
    def num_parts(self) -> int:
        """Number of parts: the wrapped tensors, then the sizes and strides that are None."""
        return len(self.attributes) + self.sizes.count(None) + self.strides.count(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrap:
    """Input leaf `leaf` wraps other tensors; its parts are further leaves. They may be unwrapped in turn."""

    leaf: int
    subclass: SubclassSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTensor:
    """Leaves that share memory which the program writes, with equal sizes, strides and offset; a call must
    pass them like that. Only the first is bound to a parameter."""

    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLeaf:
    """The window of leaf `leaf` in a shared storage, in elements."""

    leaf: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStorage:
    """Leaves that overlap in memory which the program writes: a call must pass tensors over one storage with
    these windows. Parameter `param` of `main` is one-dimensional and spans the lowest to the highest element;
    `Signature.params` binds the leaf of the first window to it."""

    param: int
    places: tuple[SharedLeaf, ...]

    @property
    def count(self) -> int:
        """Number of elements of the parameter."""
        return max(
            (
                p.offset + 1 + sum((n - 1) * s for n, s in zip(p.sizes, p.strides))
                for p in self.places
                if 0 not in p.sizes
            ),
            default=0,
        )


# --- the results


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOutput:
    """An output leaf that is result `index` of `main`."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutput:
    """An output leaf that is the object passed as input leaf `leaf`."""

    leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantOutput:
    """An output leaf with a fixed literal value (None, a number, a string)."""

    value: Arg


@dataclass(frozen=True, slots=True, kw_only=True)
class InputView:
    """An output leaf with the window of result `index` of `main`, in the storage of input leaf `leaf`. The
    caller receives a view of that input, so that the tensor library tracks writes to either."""

    index: int
    leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """An output leaf with the window of result `index` of `main`, in the storage of result `base`: a separate
    view of that result."""

    index: int
    base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedOutput:
    """An output leaf that wraps other tensors; `parts` as in `SubclassSpec.num_parts`."""

    subclass: SubclassSpec
    parts: tuple[OutputBinding, ...]


OutputBinding = ResultOutput | InputOutput | ConstantOutput | InputView | ResultView | WrappedOutput


class WriteBackKind(enum.Enum):
    """Effect of a write-back on the caller's tensor."""

    COPY = "copy"
    """Its elements become those of the result."""
    METADATA = "metadata"
    """It gets the sizes, strides and offset of the result, in the same storage (`x.transpose_()`)."""
    REPLACE = "replace"
    """It gets the storage of the result, too (`x.set_(y)`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBack:
    """A change of input leaf `leaf` by result `result` of `main` after the call. Write-backs happen in
    order."""

    result: int
    leaf: int
    kind: WriteBackKind = WriteBackKind.COPY


# --- random numbers


class RandomSource(enum.Enum):
    """Sources of random numbers."""

    GENERATOR = "generator"
    """The library's default generator of the device, which every call advances; seeding it repeats a call."""
    PHILOX = "philox"
    """A seed and an offset, two parameters of `main` after `Signature.params`, and the advanced offset, its
    last result. Reserved for accelerators: not captured or executed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomState:
    """Random numbers drawn on `device`: two calls with equal arguments may differ."""

    device: Device
    source: RandomSource = RandomSource.GENERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The whole calling convention of an artifact.

    `inputs` is a TUPLE of (args TUPLE, kwargs DICT); `params[i]` is the input leaf bound to `main`'s i-th
    parameter. `outputs` is the structure of the results; `bindings[k]` defines output leaf k: equal bindings
    of tensors are one object. `names` are readable names of the input leaves, for messages. `written` are the
    leaves whose elements `main` changes; they must not overlap other leaves, except as listed in `same` and
    `shared`. Calls do not record autograd history: a call that requires it raises an error.
    """

    inputs: TreeSpec
    params: tuple[int, ...]
    outputs: TreeSpec
    bindings: tuple[OutputBinding, ...]
    names: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    statics: tuple[StaticInput, ...] = ()
    unwraps: tuple[Unwrap, ...] = ()
    same: tuple[SameTensor, ...] = ()
    shared: tuple[SharedStorage, ...] = ()
    written: tuple[int, ...] = ()
    write_backs: tuple[WriteBack, ...] = ()
    random: tuple[RandomState, ...] = ()

    @overload
    def bindings_of(self, first: type[A], /) -> Iterator[A]: ...
    @overload
    def bindings_of(self, first: type[A], second: type[B], /) -> Iterator[A | B]: ...

    def bindings_of(self, *classes: type[object]) -> Iterator[object]:
        """The bindings of these classes, in order; parts follow the binding that wraps them."""
        return (binding for binding in _flat(self.bindings) if isinstance(binding, classes))

    @property
    def num_leaves(self) -> int:
        """Number of leaves of the inputs, including parts of unwrapped ones."""
        return self.inputs.num_leaves + sum(u.subclass.num_parts for u in self.unwraps)

    def name(self, leaf: int) -> str:
        """The readable name of an input leaf."""
        return self.names[leaf] if leaf < len(self.names) else f"#{leaf}"


def _flat(bindings: Iterable[OutputBinding]) -> Iterator[OutputBinding]:
    for binding in bindings:
        yield binding
        match binding:
            case WrappedOutput(parts=parts):
                yield from _flat(parts)
            case _:
                pass
