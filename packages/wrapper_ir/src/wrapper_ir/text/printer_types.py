"""Printer of types, devices and call arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.support.quoting import plain_name, quote, value_name

ARGUMENT_WORDS = frozenset({d.value for d in ir.DType} | {"none"})
"""Words with another meaning at the start of an argument, where symbols of these names are in parentheses."""


def device_text(device: ir.Device) -> str:
    """Returns a device as text: `cpu`, `cuda:0`."""
    kind = plain_name(device.type)
    return kind if device.index is None else f"{kind}:{device.index}"


@dataclass(frozen=True)
class _Tensor:
    """Text and extent of a tensor type. The reference keeps the ids of the type's parts valid."""

    type: ir.TensorType
    text: str

    @cached_property
    def extent(self) -> Expr:
        """`extent_bytes`, computed once."""
        return ir.extent_bytes(self.type)


class TypePrinter:
    """Prints types and arguments for one target; equal types are printed once."""

    def __init__(
        self, device: ir.Device, writers: Mapping[type, Callable[[ir.Type, TypePrinter], str]]
    ) -> None:
        """`writers` has the writers of types other than tensor types."""
        self._device = device
        self._writers = writers
        self._tensors: dict[tuple[int, ...], _Tensor] = {}
        """Entries by the ids of a type's parts, which hash slowly; equal expressions are one object."""

    def at(self, device: ir.Device) -> str:
        """Returns a device as a suffix ` @cuda:0`, empty for the target's device."""
        return "" if device == self._device else f" @{device_text(device)}"

    def type(self, x: ir.Type) -> str:
        """Returns the text of a type."""
        return self.tensor(x).text if type(x) is ir.TensorType else self._writers[type(x)](x, self)

    def tensor(self, x: ir.TensorType) -> _Tensor:
        """Returns text and extent of a tensor type, computed once for equal types."""
        key = (id(x.dtype), id(x.device), *map(id, x.sizes), 0, *map(id, x.strides))
        entry = self._tensors.get(key)
        if entry is None:
            entry = self._tensors[key] = _Tensor(x, self._tensor(x))
        return entry

    def _tensor(self, type: ir.TensorType) -> str:
        text = f"{type.dtype.value}[{self.exprs(type.sizes)}]"
        if not ir.is_contiguous(type.sizes, type.strides):
            text += f"{{{self.exprs(type.strides)}}}"
        return text + self.at(type.device)

    def exprs(self, items: tuple[Expr, ...]) -> str:
        """Returns expressions, separated by commas."""
        return ", ".join(map(print_expr, items))

    def arg(self, arg: ir.Arg) -> str:
        """Returns one argument of a call."""
        if isinstance(arg, ir.Value):  # most arguments; faster than a `match`
            return f"%{value_name(arg.name)}"
        if isinstance(arg, Expr):
            text = print_expr(arg)
            # A symbol may be called `f32`.
            return text if ARGUMENT_WORDS.isdisjoint(arg.free_symbols) else f"({text})"
        match arg:
            case tuple():
                return f"[{self.args(arg)}]"
            case None:
                return "none"
            case str():
                return quote(arg)
            case ir.DType():
                return arg.value
            case ir.Complex(real, imag):
                return f"complex({print_expr(real)}, {print_expr(imag)})"
            case ir.Device():
                return f"device({device_text(arg)})"
            case ir.MemoryFormat() | ir.Layout():
                return f"{ir.tag_of(type(arg))}({arg.value})"

    def args(self, args: tuple[ir.Arg, ...]) -> str:
        """Returns arguments, separated by commas."""
        return ", ".join(map(self.arg, args))

    def call_args(self, args: tuple[ir.Arg, ...], kwargs: tuple[tuple[str, ir.Arg], ...]) -> str:
        """Returns positional arguments, then `name=argument`, separated by commas."""
        if not kwargs:
            return self.args(args)
        keywords = [f"{plain_name(name)}={self.arg(arg)}" for name, arg in kwargs]
        return ", ".join([*map(self.arg, args), *keywords])
