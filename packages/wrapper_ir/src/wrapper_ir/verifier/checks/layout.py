"""Views stay inside their storage, and copies fit."""

from __future__ import annotations

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ops import AssertLayout, CallExtern, CollectiveStart, Copy, EnsureAligned, View, Wait
from wrapper_ir.types import StorageType, TensorType
from wrapper_ir.values import Value
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.proofs import Size, shown

__all__ = ["LayoutCheck"]

_ZERO, _ONE = Int(0), Int(1)


class LayoutCheck(Check):
    """WIR050 to WIR057. Fills `facts.places`."""

    name = "layout"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.places = facts.places
        self.uncertain = facts.aliasing.uncertain
        self.types = facts.types

    def handlers(self) -> Handlers:
        return {
            View: self.view,
            Copy: self.copy,
            EnsureAligned: self.aligned,
            AssertLayout: self.asserted,
            CallExtern: self.call,
            CollectiveStart: self.collective,
            Wait: self.wait,
        }

    def view(self, position: int, op: View) -> None:
        source, result = op.source, op.result
        own_root = isinstance(source.type, StorageType) or source in self.uncertain
        root, start = (source, 0) if own_root else self.facts.place(source)
        assert isinstance(result.type, TensorType)  # by the definitions check
        assert isinstance(source.type, StorageType | TensorType)
        if result.type.device != source.type.device:
            self.report(
                "WIR052", f"%{result.name} is on {result.type.device}, not on {source.type.device}", position
            )
        offset: Size = op.offset.value if isinstance(op.offset, Int) else op.offset
        first = start + offset if start.__class__ is not int or start else offset
        if isinstance(first, Int):
            first = first.value
        self.places[result.name] = (root, first)
        extent = self.types(result.type).extent
        capacity = self.facts.capacity(root)
        if extent is capacity and first.__class__ is int and first == 0:
            inside = True  # all of it, which is what most views are
        elif first.__class__ is int and extent.__class__ is int and capacity.__class__ is int:
            inside = first >= 0 and (first + extent <= capacity or extent == 0)
        else:
            inside = self.inside(first, extent, capacity)
        if not inside:
            self.report(
                "WIR050",
                f"%{result.name} covers {shown(extent)} bytes from {shown(first)}; %{root.name} has {shown(capacity)}",
                position,
            )
        itemsize = result.type.dtype.itemsize
        if itemsize > 1 and not self.multiple(itemsize, offset, first):
            self.report(
                "WIR051", f"%{result.name} starts at byte {shown(first)}, items have {itemsize}", position
            )

    def inside(self, first: Size, extent: Size, capacity: Size) -> bool:
        le = self.facts.proofs.le
        return extent == 0 or (le(0, first) and le(first + extent, capacity))

    def multiple(self, itemsize: int, offset: Size, first: Size) -> bool:
        if offset.__class__ is int and first.__class__ is int:
            return not (offset % itemsize or first % itemsize)
        divides = self.facts.proofs.divides
        return divides(itemsize, offset) and divides(itemsize, first)

    def aligned(self, position: int, op: EnsureAligned) -> None:
        if op.source.type != op.result.type:
            self.report("WIR053", f"%{op.result.name} must have the type of %{op.source.name}", position)

    def asserted(self, position: int, op: AssertLayout) -> None:
        type = op.tensor.type
        assert isinstance(type, TensorType)  # by the definitions check
        rank = len(type.sizes)
        if len(op.sizes) != rank or len(op.strides) != rank:
            self.report("WIR057", f"%{op.tensor.name} has {rank} dimensions", position)
            return
        differ = self.facts.proofs.differ
        for size, stride, known, step in zip(op.sizes, op.strides, type.sizes, type.strides):
            if differ(size, known) or (known != _ONE and differ(stride, step)):
                self.report("WIR057", f"%{op.tensor.name} has another type than is asserted", position)
                return

    def copy(self, position: int, op: Copy) -> None:
        dst, src = op.dst.type, op.src.type
        assert isinstance(dst, TensorType)  # by the definitions check
        assert isinstance(src, TensorType)
        fits = len(src.sizes) <= len(dst.sizes) and all(
            self.broadcasts(a, b) for a, b in zip(reversed(src.sizes), reversed(dst.sizes))
        )
        if not fits:
            self.report("WIR054", f"%{op.src.name} cannot be broadcast to %{op.dst.name}", position)
        self.scatter_free(position, op.dst)
        roots_at = self.facts.aliasing.roots_at
        shared = set(roots_at(op.dst, position)) & set(roots_at(op.src, position))
        if shared and self.facts.overlap(op.dst, op.src) and not self.facts.same_window(op.dst, op.src):
            self.report("WIR056", f"%{op.dst.name} and %{op.src.name} share bytes", position)

    def broadcasts(self, a: Expr, b: Expr) -> bool:
        """Sizes that are not surely different are left to the run."""
        return a is b or a == _ONE or not self.facts.proofs.differ(a, b)

    def collective(self, position: int, op: CollectiveStart) -> None:
        self.call(position, op)
        for result, operand in self.facts.aliasing.effects[position].aliases:
            self.same(position, result, operand)

    def wait(self, position: int, op: Wait) -> None:
        self.same(position, op.result, op.source)

    def same(self, position: int, result: Value, source: Value) -> None:
        """`result` is the window `source`, under another name."""
        if result.type != source.type:
            self.report("WIR053", f"%{result.name} must have the type of %{source.name}", position)
        self.places[result.name] = self.facts.place(source)

    def call(self, position: int, op: CallExtern | CollectiveStart) -> None:
        for value in self.facts.aliasing.effects[position].writes:
            self.scatter_free(position, value)

    def scatter_free(self, position: int, value: Value) -> None:
        """Library operators refuse to write through a window that holds one element several times."""
        type = value.type
        if not isinstance(type, TensorType) or any(size == _ZERO for size in type.sizes):
            return
        for size, stride in zip(type.sizes, type.strides):
            if stride.__class__ is Int and stride.value == 0 and isinstance(size, Int) and size.value > 1:
                self.report("WIR055", f"%{value.name} holds one element several times", position)
                return
