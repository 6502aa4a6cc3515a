"""Reads expressions, types, devices, values and call arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, ExprParser, Float, Int, Sym
from wrapper_ir.layout import contiguous_strides, extent_bytes
from wrapper_ir.ops import Arg, Complex
from wrapper_ir.program import SymbolDef
from wrapper_ir.tokens import MAX_DEPTH, Source, kind_of
from wrapper_ir.types import (
    CPU,
    Device,
    DType,
    Layout,
    MemoryFormat,
    StorageType,
    TensorType,
    Type,
)

__all__ = ["DTYPES", "TypeParser"]

DTYPES = {d.value: d for d in DType}
_FORMATS = {f.value: f for f in MemoryFormat}
_LAYOUTS = {x.value: x for x in Layout}
_ENDS = frozenset((",", ")", "]", "}", "\n", ":"))
"""Tokens that surely end an expression."""


class TypeParser(ExprParser):
    """Reads types and arguments, and knows the declared symbols, the values in scope and the target's device."""

    def __init__(self, source: Source, types: Mapping[str, Callable[[Any], Type]]) -> None:
        """`types` read the types that begin with a word, all but those of tensors."""
        super().__init__(source)
        self._type_words = types
        self.device: Device = CPU
        self.symbols: dict[str, SymbolDef] = {}
        self._simple: dict[str, Expr] = {}
        self._types: dict[tuple[str, ...], Type] = {}
        self._storages: dict[TensorType, StorageType] = {}
        self._lists = 0
        """How many lists the argument that is being read stands in."""

    def declare_symbol(self, symbol: SymbolDef) -> None:
        """Makes a symbol known to expressions."""
        self.symbols[symbol.name] = symbol
        self.kinds[symbol.name] = symbol.kind
        # no expression can hold a symbol called `min`; the verifier reports it
        with contextlib.suppress(ExpressionError):
            self._simple[symbol.name] = Sym(symbol.name, symbol.kind)

    def expr(self) -> Expr:
        """An expression."""
        if self.tokens[self.at + 1] in _ENDS:
            token = self.tokens[self.at]
            e = self._simple.get(token)
            if e is None and token.isdecimal() and token.isascii() and len(token) < 20:
                e = self._simple[token] = Int(int(token))
            if e is not None:
                self.at += 1
                return e
        return self.expression()

    def exprs(self, opening: str, close: str) -> tuple[Expr, ...]:
        """Expressions between brackets."""
        self.expect(opening)
        return self.items(close, TypeParser.expr)

    def device_name(self, kind: str) -> Device:
        """What follows the device type `kind`: an index or nothing."""
        if self.tokens[self.at] != ":" or kind_of(self.tokens[self.at + 1]) == "NAME":
            return Device(kind)  # the colon of a type, if any
        self.at += 1
        return Device(kind, self.integer("a device index"))

    def device_suffix(self) -> Device:
        """`@cuda:0`, or the target's device."""
        if self.tokens[self.at][:1] != "@":
            return self.device
        return self.device_name(self.sigil("@", "a device such as @cuda:0"))

    def type(self) -> Type:
        """A type; those spelt alike are one object."""
        token = self.tokens[self.at]
        start = self.at
        if token in DTYPES and self.tokens[start + 1] == "[":
            return self._tensor(DTYPES[token], start)
        read = self._type_words.get(token)
        if read is not None:
            return read(self)
        if token not in DTYPES:
            self.unknown("type", {*DTYPES, *self._type_words})
        self.at += 1
        return self.unexpected("`[` and the sizes of a tensor")

    def _tensor(self, dtype: DType, start: int) -> Type:
        key = self._tensor_key(start)
        known = self._types.get(key)
        if known is not None:
            self.at = start + len(key)
            return known
        self.at = start + 1
        sizes = self.exprs("[", "]")
        strides = self.exprs("{", "}") if self.tokens[self.at] == "{" else contiguous_strides(sizes)
        made = TensorType(dtype, sizes, strides, self.device_suffix())
        if self.at == start + len(key) and not any(e.free_values for e in (*sizes, *strides)):
            self._types[key] = made
        return made

    def _tensor_key(self, start: int) -> tuple[str, ...]:
        """The tokens of a well-formed tensor type from `start` on."""
        tokens = self.tokens
        try:
            end = tokens.index("]", start, start + 200) + 1
            if tokens[end] == "{":
                end = tokens.index("}", end, end + 200) + 1
        except ValueError:
            return ()
        if tokens[end][:1] == "@":
            end += 3 if tokens[end + 1] == ":" else 1
        return tuple(tokens[start:end])

    def storage_of(self, type: TensorType) -> StorageType:
        """The storage that a tensor of this type fills."""
        found = self._storages.get(type)
        if found is None:
            found = self._storages[type] = StorageType(extent_bytes(type), type.device)
        return found

    def arg(self) -> Arg:
        """One argument of a call."""
        token = self.tokens[self.at]
        if token[:1] == "%" and len(token) > 1:
            return self.value()
        if token[:1] == '"':
            return self.string()
        if token == "[":
            return self._list()
        if token in DTYPES:
            self.at += 1
            return DTYPES[token]
        if token == "none":
            self.at += 1
            return None
        if self.tokens[self.at + 1] == "(" and token in _CONSTANTS:
            self.at += 2
            constant = _CONSTANTS[token](self)
            self.expect(")")
            return constant
        return self.expr()

    def _list(self) -> Arg:
        self._lists += 1
        if self._lists > MAX_DEPTH:
            self.fail("WIR553", f"lists nest deeper than {MAX_DEPTH}")
        self.at += 1
        items = self.items("]", TypeParser.arg)
        self._lists -= 1
        return items

    def complex(self) -> Complex:
        """What stands in `complex(0.5, -1.0)`."""
        start, real = self.at, self.expr()
        self.expect(",")
        imag = self.expr()
        if not (isinstance(real, Float) and isinstance(imag, Float)):
            self.fail("WIR500", "a complex number has two floats", start)
        return Complex(real, imag)

    def call_args(self) -> tuple[tuple[Arg, ...], tuple[tuple[str, Arg], ...]]:
        """`(argument, ..., name=argument, ...)`."""
        self.expect("(")
        args: list[Arg] = []
        kwargs: list[tuple[str, Arg]] = []

        def read(p: TypeParser) -> None:
            if p.tokens[p.at + 1] == "=":
                name = p.name("an argument name")
                p.at += 1
                kwargs.append((name, p.arg()))
            elif kwargs:
                p.fail("WIR500", "a positional argument stands behind a named one")
            else:
                args.append(p.arg())

        self.items(")", read)
        return tuple(args), tuple(kwargs)


_CONSTANTS: Mapping[str, Callable[[TypeParser], Arg]] = {
    "complex": TypeParser.complex,
    "device": lambda p: p.device_name(p.name("a device type")),
    "memory_format": lambda p: p.choice(_FORMATS, "memory format"),
    "layout": lambda p: p.choice(_LAYOUTS, "layout"),
}
"""What arguments with parentheses begin with, besides expressions."""
