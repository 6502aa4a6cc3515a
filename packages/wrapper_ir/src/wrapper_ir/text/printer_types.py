"""Types, devices and call arguments as text."""

from __future__ import annotations

from typing import assert_never

from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.layout import extent_bytes, is_contiguous
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.quoting import plain_name, quote, value_name
from wrapper_ir.types import (
    Device,
    DType,
    Layout,
    MemoryFormat,
    MemorySpace,
    OpaqueType,
    ScalarType,
    StorageType,
    TensorType,
    TupleType,
    Type,
)
from wrapper_ir.values import Value

__all__ = ["ARGUMENT_WORDS", "TypePrinter", "device_text", "space_text"]

ARGUMENT_WORDS = frozenset({d.value for d in DType} | {"none"})
"""Words that mean something of their own where an argument starts; symbols of these names get parentheses there."""

_DEFAULT_SPACE = MemorySpace()


def device_text(device: Device) -> str:
    """`cpu`, `cuda:0`."""
    kind = plain_name(device.type)
    return kind if device.index is None else f"{kind}:{device.index}"


def space_text(space: MemorySpace) -> str:
    """Empty for the default space; `pinned`, `symmetric("group", 3)`."""
    if space == _DEFAULT_SPACE:
        return ""
    if not space.group and not space.alloc_id:
        return space.kind.value
    return f"{space.kind.value}({quote(space.group)}, {space.alloc_id})"


class TypePrinter:
    """Prints types and arguments for one target; equal types are printed once."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._types: dict[int, tuple[Type, str]] = {}
        """By identity, since to hash a type takes longer than all else; the type is kept, so that its identity is."""
        self._texts: dict[Type, str] = {}
        self._extents: dict[TensorType, Expr] = {}

    def at(self, device: Device) -> str:
        """` @cuda:0`, empty for the target's own device."""
        return "" if device == self._device else f" @{device_text(device)}"

    def type(self, type: Type) -> str:
        """The text of a type."""
        known = self._types.get(id(type))
        if known is None:
            text = self._texts.get(type)
            if text is None:
                text = self._texts[type] = self._type(type)
            known = self._types[id(type)] = (type, text)
        return known[1]

    def extent(self, type: TensorType) -> Expr:
        """`extent_bytes`, worked out once for equal types."""
        found = self._extents.get(type)
        if found is None:
            found = self._extents[type] = extent_bytes(type)
        return found

    def _type(self, type: Type) -> str:
        match type:
            case TensorType():
                return self._tensor(type)
            case StorageType(nbytes, device, space):
                where = space_text(space)
                return f"storage({print_expr(nbytes)}{', ' if where else ''}{where}){self.at(device)}"
            case ScalarType(kind):
                return kind.value
            case TupleType():
                return "results"
            case OpaqueType(opaque, detail):
                return f"{opaque.value}({quote(detail)})" if detail else opaque.value
            case _:
                assert_never(type)

    def _tensor(self, type: TensorType) -> str:
        text = f"{type.dtype.value}[{self.exprs(type.sizes)}]"
        if not is_contiguous(type.sizes, type.strides):
            text += f"{{{self.exprs(type.strides)}}}"
        return text + self.at(type.device)

    def exprs(self, items: tuple[Expr, ...]) -> str:
        """Expressions, separated by commas."""
        return ", ".join(map(print_expr, items))

    def arg(self, arg: Arg) -> str:
        """One argument of a call."""
        if type(arg) is Value:
            return f"%{value_name(arg.name)}"
        if isinstance(arg, Expr):
            text = print_expr(arg)
            # a symbol may be called `f32`
            return f"({text})" if not ARGUMENT_WORDS.isdisjoint(arg.free_symbols) else text
        return self._other_arg(arg)

    def _other_arg(self, arg: Arg) -> str:
        match arg:
            case Complex():
                return f"complex({print_expr(arg.real)}, {print_expr(arg.imag)})"
            case tuple():
                return f"[{self.args(arg)}]"
            case None:
                return "none"
            case str():
                return quote(arg)
            case DType():
                return arg.value
            case Device():
                return f"device({device_text(arg)})"
            case MemoryFormat():
                return f"memory_format({arg.value})"
            case Layout():
                return f"layout({arg.value})"
            case Value() | Expr():
                return self.arg(arg)
            case _:
                assert_never(arg)

    def args(self, args: tuple[Arg, ...]) -> str:
        """Arguments, separated by commas."""
        return ", ".join(map(self.arg, args))

    def call_args(self, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...]) -> str:
        """Positional arguments, then `name=argument`."""
        if not kwargs:
            return self.args(args)
        named = [f"{plain_name(name)}={self.arg(arg)}" for name, arg in kwargs]
        return ", ".join([*map(self.arg, args), *named])
