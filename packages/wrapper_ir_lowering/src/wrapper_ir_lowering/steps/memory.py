"""Steps that allocate, view, fill and end memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir_lowering.steps.base import StepBase, Stream

_ZERO = Int(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate(StepBase):
    """Allocates a tensor of `type` that represents all of `storage`, whose type has bytes, memory space and
    alignment.

    `result` is the only complete view of the storage if nothing else uses it, with its type. Otherwise it is
    the storage itself, as a flat tensor. Its elements have the views' type if that is unique and divides all
    offsets; otherwise they are bytes. With `zero`, it is filled with zeros. Text: `%buf0 = allocate f32[s0,
    64] over %buf0.s`, `%pool = allocate u8[1024] over %pool zero stream(1) @cuda:0`.
    """

    syntax: ClassVar[str] = "{result} = allocate {type} over {storage}< {zero}>< {stream}>"

    result: ir.Value[ir.StorageType | ir.TensorType]
    type: ir.TensorType
    storage: ir.Value[ir.StorageType]
    zero: bool = False
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Zero(StepBase):
    """Fills memory that persists from call to call, or a slot, with zeros.

    Text: `zero %ws`, `zero %ws stream(1) @cuda:0`.
    """

    syntax: ClassVar[str] = "zero {value}< {stream}>"

    value: ir.Value[ir.StorageType]
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeBlock(StepBase):
    """Allocates `nbytes` of memory for a block whose tensors persist from call to call, or releases it if 0.

    Text: `resize_block 0 to 1024`.
    """

    syntax: ClassVar[str] = "resize_block {block} to {nbytes}"

    block: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlace:
    """The bytes of a slot: `nbytes` of them, `start` bytes after the start of `base`.

    `base` is an allocation or a parameter whose elements are of type `dtype`. Text: `%pool + 256 : 1024`.
    """

    base: ir.Value[ir.Type]
    dtype: ir.DType
    start: Expr
    nbytes: Expr

    @property
    def first(self) -> Expr:
        """The first element of a slot that is a separate tensor, counted from that of `base`."""
        return self._elements(self.start)

    @property
    def count(self) -> Expr:
        """The elements of a slot that is a separate tensor."""
        return self._elements(self.nbytes)

    def _elements(self, nbytes: Expr) -> Expr:
        quotient = ir.exact_quotient(nbytes, self.dtype.itemsize)
        assert quotient is not None  # such slots require this of the element type
        return quotient


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginSlot(StepBase):
    """Starts the use of the bytes of `slot`.

    If something takes the slot as a whole (`is_lent`), it becomes a separate flat tensor of the place's
    element type, which is bytes for a callee. Otherwise its views are windows of `base`, and the step does
    nothing. Text: `begin_slot %a in %pool + 256 : 1024 lent`.
    """

    syntax: ClassVar[str] = "begin_slot {slot} in {place}< {is_lent:lent}>"

    slot: ir.Value[ir.StorageType]
    place: SlotPlace
    is_lent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStep(StepBase):
    """Common fields of views: a tensor over the memory of `source`, a tensor or the representative of a
    storage.

    With `is_reuse`, the source ends here; `ends` lists the names that end.
    """

    result: ir.Value[ir.TensorType]
    source: ir.Value[ir.Type]
    is_reuse: bool = False
    ends: tuple[ir.Value[ir.Type], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Same(ViewStep):
    """`result` is `source` under another name.

    Text: `%y = same %x`, with `reuse(%x)` after it if names end.
    """

    syntax: ClassVar[str] = "{result} = same {source}< {is_reuse:reuse}>< ends({ends})>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(ViewStep):
    """A window of the element type of `source`, `offset` elements from its first one.
    Text: `%v = window %buf0 + 32 : f32[4, 8]`, `%y = window %x : f32[32] reuse ends(%x)`."""

    syntax: ClassVar[str] = (
        "{result} = window {source}< + {offset}> : {result:type}< {is_reuse:reuse}>< ends({ends})>"
    )

    offset: Expr = _ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteWindow(ViewStep):
    """A window with an element type other than that of `source`, or at an offset that may not be a whole
    number of elements.

    It starts `offset` bytes after the first element. Text: `%v = byte_window %pool + 128 : f32[4, 8]`.
    """

    syntax: ClassVar[str] = (
        "{result} = byte_window {source}< + {offset}> : {result:type}< {is_reuse:reuse}>< ends({ends})>"
    )

    offset: Expr = _ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStorage(StepBase):
    """Ends a storage.

    `base` represents it, even if that name has ended before: the storage itself, its only view, or a tensor
    whose storage is meant. `ends` are the names over its memory, which all end. The memory of a slot returns
    to its pool, at `slot`; other memory is released. Text: `end_storage %buf0.s (%buf0, %v)`.
    """

    syntax: ClassVar[str] = "end_storage {storage} ({ends})< in {slot}>"

    storage: ir.Value[ir.Type]
    base: ir.Value[ir.Type]
    slot: SlotPlace | None = None
    ends: tuple[ir.Value[ir.Type], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNames(StepBase):
    """Ends names without ending their memory. Text: `end_names %x`."""

    syntax: ClassVar[str] = "end_names {ends}"

    ends: tuple[ir.Value[ir.Type], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(StepBase):
    """Copies elements with broadcasting and conversion.

    Text: `copy %dst, %src non_blocking stream(1) @cuda:0`.
    """

    syntax: ClassVar[str] = "copy {dst}, {src}< {non_blocking}>< {stream}>"

    dst: ir.Value[ir.TensorType]
    src: ir.Value[ir.TensorType]
    non_blocking: bool = False
    stream: Stream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Align(StepBase):
    """`result` is `source` if its address is a multiple of `alignment` bytes, otherwise an aligned copy with
    the same strides.

    Text: `%y = align %x, 16`.
    """

    syntax: ClassVar[str] = "{result} = align {source}, {alignment}"

    result: ir.Value[ir.TensorType]
    source: ir.Value[ir.TensorType]
    alignment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStorage(StepBase):
    """Resizes the storage under `target`. Text: `resize_storage %x, s0*4`."""

    syntax: ClassVar[str] = "resize_storage {target}, {nbytes}"

    target: ir.Value[ir.TensorType]
    nbytes: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStorage(StepBase):
    """Makes `target` a view of `source` in every reference. Text: `set_storage %x, %y`."""

    syntax: ClassVar[str] = "set_storage {target}, {source}"

    target: ir.Value[ir.TensorType]
    source: ir.Value[ir.TensorType]


MemoryStep = (
    Allocate
    | Zero
    | ResizeBlock
    | BeginSlot
    | Same
    | Window
    | ByteWindow
    | EndStorage
    | EndNames
    | Copy
    | Align
    | ResizeStorage
    | SetStorage
)
