"""Checks that views stay inside their storage, and that copies and asserted layouts fit."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers, sizes_of
from wrapper_ir.verifier.obligations import Claim, Size, as_size
from wrapper_ir.verifier.proofs import shown

_ZERO, _ONE = Int(0), Int(1)


class LayoutCheck(Check):
    """WIR050 to WIR057, and WIR200. Fills `facts.places`."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.places = facts.places
        self.uncertain = facts.aliasing.uncertain
        self.types = facts.types

    def handlers(self) -> Handlers:
        return {
            ir.AllocStorage: self.alloc,
            ir.View: self.view,
            ir.Copy: self.copy,
            ir.EnsureAligned: self.aligned,
            ir.SetStorage: self.attached,
            ir.AssertLayout: self.asserted,
            ir.CallExtern: self.call,
            ir.CollectiveStart: self.collective,
            ir.Wait: self.wait,
        }

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        type = op.result.type
        if type.alignment > ir.DEFAULT_ALIGNMENT:  # every allocator guarantees this
            self.allocated(position, op.result, type.device, type.alignment)

    def allocated(self, position: int, result: ir.Value, device: ir.Device, alignment: int) -> None:
        """Requires that the device's allocator guarantees an alignment."""
        most = device.traits.allocation_alignment
        if alignment > most:
            message = (
                f"%{result.name} is to be aligned to {alignment} bytes; allocators of {device} give {most}"
            )
            self.report("WIR200", message, position)

    def view(self, position: int, op: ir.View) -> None:
        source, result = op.source, op.result
        own_root = ir.is_storage(source) or source in self.uncertain
        root, start = (source, 0) if own_root else self.facts.place(source)
        device = result.type.device
        if device is not source.type.device and device != source.type.device:
            self.report("WIR052", f"%{result.name} is on {device}, not on {source.type.device}", position)
        offset = as_size(op.offset)
        first = start + offset if start.__class__ is not int or start else offset
        if isinstance(first, Int):
            first = first.value
        self.places[result.name] = (root, first)
        extent = self.types(result.type).extent
        capacity = self.facts.capacity(root)
        whole = root.type is result.type or ir.is_storage(root)
        if extent is capacity and whole and first.__class__ is int and first == 0:
            pass  # the whole storage, the common case
        elif first.__class__ is int and extent.__class__ is int and capacity.__class__ is int:
            if first < 0 or (first + extent > capacity and extent != 0):
                self.report("WIR050", _outside(result, first, extent, root, capacity), position)
        else:
            self.facts.require(
                Claim(self.facts.within(root, first, extent), sizes_of(result)),
                "WIR050",
                lambda: _outside(result, first, extent, root, capacity),
                position,
            )
        itemsize = result.type.dtype.itemsize
        for byte in (first, offset) if itemsize > 1 else ():
            if byte.__class__ is not int or byte % itemsize:
                self.facts.require_multiple(
                    itemsize,
                    byte,
                    "WIR051",
                    lambda: f"%{result.name} starts at byte {shown(first)}, items have {itemsize}",
                    position,
                )

    def aligned(self, position: int, op: ir.EnsureAligned) -> None:
        if op.source.type != op.result.type:
            self.report("WIR053", f"%{op.result.name} must have the type of %{op.source.name}", position)
        self.allocated(position, op.result, op.result.type.device, op.alignment)

    def attached(self, position: int, op: ir.SetStorage) -> None:
        target, source = op.target, op.source
        if target == source:
            self.report("WIR220", f"%{target.name} is set to itself", position)
        elif (target.type.dtype, target.type.device) != (source.type.dtype, source.type.device):
            self.report(
                "WIR220",
                f"%{target.name} is {target.type.dtype} on {target.type.device}, "
                f"%{source.name} is {source.type.dtype} on {source.type.device}",
                position,
            )

    def asserted(self, position: int, op: ir.AssertLayout) -> None:
        count = len(op.tensors)
        if not count or len(op.sizes) != count or len(op.strides) != count:
            self.report("WIR057", "each asserted tensor has sizes and strides", position)
            return
        for layout in ir.asserted_layouts(op):
            self.asserted_one(position, *layout)

    def asserted_one(
        self,
        position: int,
        tensor: ir.Value[ir.TensorType],
        sizes: tuple[Expr, ...],
        strides: tuple[Expr, ...],
    ) -> None:
        type = tensor.type
        rank = len(type.sizes)
        if len(sizes) != rank or len(strides) != rank:
            self.report("WIR057", f"%{tensor.name} has {rank} dimensions", position)
            return
        differ = self.facts.proofs.differ
        for size, stride, extent, spacing in zip(sizes, strides, type.sizes, type.strides):
            if differ(size, extent) or (extent.constant not in (None, 1) and differ(stride, spacing)):
                self.report("WIR057", f"%{tensor.name} has another type than is asserted", position)
                return

    def copy(self, position: int, op: ir.Copy) -> None:
        dst, src = op.dst.type, op.src.type
        self.broadcast(position, op, src.sizes, dst.sizes)
        self.scatter_free(position, op.dst)
        roots_at = self.facts.aliasing.roots_at
        shared = set(roots_at(op.dst, position)) & set(roots_at(op.src, position))
        if shared and not self.facts.same_window(op.dst, op.src):
            message = f"%{op.dst.name} and %{op.src.name} share bytes"
            self.facts.require_apart(op.dst, op.src, "WIR056", lambda: message, position)

    def broadcast(
        self, position: int, op: ir.Copy, source: tuple[Expr, ...], target: tuple[Expr, ...]
    ) -> None:
        def message() -> str:
            return f"%{op.src.name} cannot be broadcast to %{op.dst.name}"

        if len(source) > len(target):
            self.report("WIR054", message(), position)
            return
        for a, b in zip(reversed(source), reversed(target)):
            if a is not b and a != _ONE:
                either = (((a, b), (b, a)), ((a, 1), (1, a)))
                self.facts.require(Claim(either), "WIR054", message, position)

    def collective(self, position: int, op: ir.CollectiveStart) -> None:
        self.call(position, op)
        for result, operand in self.facts.aliasing.effects[position].aliases:
            self.same(position, result, operand)

    def wait(self, position: int, op: ir.Wait) -> None:
        self.same(position, op.result, op.source)

    def same(self, position: int, result: ir.Value, source: ir.Value) -> None:
        """Handles `result`, another name of the tensor `source`."""
        if result.type != source.type:
            self.report("WIR053", f"%{result.name} must have the type of %{source.name}", position)
        self.places[result.name] = self.facts.place(source)

    def call(self, position: int, op: ir.OperatorCall) -> None:
        for value in self.facts.aliasing.effects[position].writes:
            self.scatter_free(position, value)

    def scatter_free(self, position: int, value: ir.Value) -> None:
        """Requires that no element of a written tensor overlaps another; operators refuse to write such
        tensors."""
        if not ir.is_tensor(value) or _ZERO in value.type.sizes:
            return
        for size, stride in zip(value.type.sizes, value.type.strides):
            if stride is _ZERO and (size.constant or 0) > 1:
                self.report("WIR055", f"%{value.name} holds one element several times", position)
                return


def _outside(result: ir.Value, first: Size, extent: Size, root: ir.Value, capacity: Size) -> str:
    place = f"{shown(extent)} bytes from {shown(first)}"
    return f"%{result.name} covers {place}; %{root.name} has {shown(capacity)}"
