"""Types, devices and call arguments as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from wrapper_ir import ir
from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.support.quoting import plain_name, quote, value_name

ARGUMENT_WORDS = frozenset({d.value for d in ir.DType} | {"none"})
"""Words that mean something of their own where an argument starts; symbols of these names get parentheses there."""


def device_text(device: ir.Device) -> str:
    """`cpu`, `cuda:0`."""
    kind = plain_name(device.type)
    return kind if device.index is None else f"{kind}:{device.index}"


@dataclass(frozen=True)
class _Tensor:
    """What is known of a tensor's type, which is kept so that its parts are."""

    type: ir.TensorType
    text: str

    @cached_property
    def extent(self) -> Expr:
        """`extent_bytes`, worked out once."""
        return ir.extent_bytes(self.type)


class TypePrinter:
    """Prints types and arguments for one target; equal types are printed once."""

    def __init__(
        self, device: ir.Device, writers: Mapping[type, Callable[[ir.Type, TypePrinter], str]]
    ) -> None:
        """`writers` print the types that are not tensors'."""
        self._device = device
        self._writers = writers
        self._tensors: dict[tuple[int, ...], _Tensor] = {}
        """By identity of their parts (expressions are one object where they are equal), which hash slowly themselves."""

    def at(self, device: ir.Device) -> str:
        """` @cuda:0`, empty for the target's own device."""
        return "" if device == self._device else f" @{device_text(device)}"

    def type(self, held: ir.Type) -> str:
        """The text of a type."""
        return (
            self.tensor(held).text if type(held) is ir.TensorType else self._writers[type(held)](held, self)
        )

    def tensor(self, held: ir.TensorType) -> _Tensor:
        """What is known of a type, once for equal ones."""
        key = (id(held.dtype), id(held.device), *map(id, held.sizes), 0, *map(id, held.strides))
        known = self._tensors.get(key)
        if known is None:
            known = self._tensors[key] = _Tensor(held, self._tensor(held))
        return known

    def _tensor(self, type: ir.TensorType) -> str:
        text = f"{type.dtype.value}[{self.exprs(type.sizes)}]"
        if not ir.is_contiguous(type.sizes, type.strides):
            text += f"{{{self.exprs(type.strides)}}}"
        return text + self.at(type.device)

    def exprs(self, items: tuple[Expr, ...]) -> str:
        """Expressions, separated by commas."""
        return ", ".join(map(print_expr, items))

    def arg(self, arg: ir.Arg) -> str:
        """One argument of a call."""
        if isinstance(arg, ir.Value):  # most are, and a `match` takes longer
            return f"%{value_name(arg.name)}"
        if isinstance(arg, Expr):
            text = print_expr(arg)
            # a symbol may be called `f32`
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
        """Arguments, separated by commas."""
        return ", ".join(map(self.arg, args))

    def call_args(self, args: tuple[ir.Arg, ...], kwargs: tuple[tuple[str, ir.Arg], ...]) -> str:
        """Positional arguments, then `name=argument`."""
        if not kwargs:
            return self.args(args)
        named = [f"{plain_name(name)}={self.arg(arg)}" for name, arg in kwargs]
        return ", ".join([*map(self.arg, args), *named])
