"""Parser of types, devices, call arguments, and common parts of ops: results, references, streams."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Float, Int, Sym
from wrapper_ir.support.tokens import MAX_DEPTH, Source, kind_of

_DTYPES = {d.value: d for d in ir.DType}
_ARGUMENTS: Mapping[str, ir.DType | None] = {**_DTYPES, "none": None}
_FORMATS = {f.value: f for f in ir.MemoryFormat}
_LAYOUTS = {x.value: x for x in ir.Layout}
T = TypeVar("T")
TypeT = TypeVar("TypeT", bound=ir.Type)
_ENDS = frozenset((",", ")", "]", "}", "\n", ":"))
"""Tokens that always end an expression."""


class OpParser(ir.AtomParser):
    """Parser of ops of one function at a time, with its scopes of symbols and values."""

    def __init__(
        self, source: Source, types: Mapping[str, Callable[[OpParser], ir.Type]], ops: ir.OpSet
    ) -> None:
        """`types` has the readers of types that begin with a word, which are all except tensor types."""
        super().__init__(source)
        self._type_words = types
        self.device: ir.Device = ir.CPU
        self.symbols: dict[str, ir.SymbolDef] = {}
        self._simple: dict[str, Expr] = {}
        self._types: dict[tuple[str, ...], ir.Type] = {}
        self._storages: dict[ir.TensorType, ir.StorageType] = {}
        self.ops = ops
        self.prov: ir.Provenance = ir.UNKNOWN
        self._results: list[str] = []
        self._start = 0
        self._lists = 0
        """Nesting of lists around the current argument."""

    def declare_symbol(self, symbol: ir.SymbolDef) -> None:
        """Declares a symbol for expressions."""
        self.symbols[symbol.name] = symbol
        self.kinds[symbol.name] = symbol.kind
        # No expression can contain a symbol called `min`; the verifier reports it.
        with contextlib.suppress(ExpressionError):
            self._simple[symbol.name] = Sym(symbol.name, symbol.kind)

    def expr(self) -> Expr:
        """Parses an expression."""
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
        """Parses expressions between brackets."""
        self.expect(opening)
        return self.items(close, OpParser.expr)

    def device_name(self, kind: str) -> ir.Device:
        """Parses the optional index after the device type `kind`."""
        if self.tokens[self.at] != ":" or kind_of(self.tokens[self.at + 1]) == "NAME":
            return ir.Device(kind)  # the colon of a type, if any
        self.at += 1
        return ir.Device(kind, self.integer("a device index"))

    def device_suffix(self) -> ir.Device:
        """Parses `@cuda:0`; the default is the target's device."""
        if self.tokens[self.at][:1] != "@":
            return self.device
        return self.device_name(self.sigil("@", "a device such as @cuda:0"))

    def type(self) -> ir.Type:
        """Parses a type. Tensor types with equal text are one object."""
        token = self.tokens[self.at]
        start = self.at
        if token in _DTYPES and self.tokens[start + 1] == "[":
            return self._tensor(_DTYPES[token], start)
        read = self._type_words.get(token)
        if read is not None:
            return read(self)
        if token not in _DTYPES:
            self.unknown("type", {*_DTYPES, *self._type_words})
        self.at += 1
        return self.unexpected("`[` and the sizes of a tensor")

    def _tensor(self, dtype: ir.DType, start: int) -> ir.Type:
        key = self._tensor_key(start)
        cached = self._types.get(key)
        if cached is not None:
            self.at = start + len(key)
            return cached
        self.at = start + 1
        sizes = self.exprs("[", "]")
        if len(sizes) > ir.MAX_RANK:
            self.fail("WIR553", f"a tensor of {len(sizes)} dimensions; {ir.MAX_RANK} are read", start)
        strides = self.exprs("{", "}") if self.tokens[self.at] == "{" else ir.contiguous_strides(sizes)
        type = ir.TensorType(dtype, sizes, strides, self.device_suffix())
        if self.at == start + len(key) and not any(e.free_atoms for e in (*sizes, *strides)):
            self._types[key] = type
        return type

    def _tensor_key(self, start: int) -> tuple[str, ...]:
        """Returns the tokens of the tensor type at `start`; () if it is malformed or long."""
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

    def storage_of(self, type: ir.TensorType) -> ir.StorageType:
        """Returns the type of a storage with the extent of a tensor of this type."""
        storage = self._storages.get(type)
        if storage is None:
            storage = self._storages[type] = ir.StorageType(ir.extent_bytes(type), type.device)
        return storage

    def arg(self) -> ir.Arg:
        """Parses one argument of a call."""
        token = self.tokens[self.at]
        if token[:1] == "%" and len(token) > 1:
            return self.value()
        if token[:1] == '"':
            return self.string()
        if token == "[":
            return self._list()
        if token in _ARGUMENTS:
            self.at += 1
            return _ARGUMENTS[token]
        if self.tokens[self.at + 1] == "(" and token in _CONSTANTS:
            self.at += 2
            constant = _CONSTANTS[token](self)
            self.expect(")")
            return constant
        return self.expr()

    def _list(self) -> ir.Arg:
        self._lists += 1
        if self._lists > MAX_DEPTH:
            self.fail("WIR553", f"lists nest deeper than {MAX_DEPTH}")
        self.at += 1
        items = self.items("]", OpParser.arg)
        self._lists -= 1
        return items

    def complex(self) -> ir.Complex:
        """Parses the numbers of `complex(0.5, -1.0)`."""
        start, real = self.at, self.expr()
        self.expect(",")
        imag = self.expr()
        if type(real) is not Float or type(imag) is not Float:
            self.fail("WIR500", "a complex number has two floats", start)
        return ir.Complex(real, imag)

    def call_args(self) -> tuple[tuple[ir.Arg, ...], tuple[tuple[str, ir.Arg], ...]]:
        """Parses `(argument, ..., name=argument, ...)`."""
        self.expect("(")
        args: list[ir.Arg] = []
        kwargs: list[tuple[str, ir.Arg]] = []

        def read(p: OpParser) -> None:
            if p.tokens[p.at + 1] == "=":
                name = p.name("an argument name")
                p.at += 1
                kwargs.append((name, p.arg()))
            elif kwargs:
                p.fail("WIR500", "a positional argument follows a named one")
            else:
                args.append(p.arg())

        self.items(")", read)
        return tuple(args), tuple(kwargs)

    # --- common parts of ops

    def start_op(self, prov: ir.Provenance) -> None:
        """Parses the names of results at the start of a line; its ops get the provenance `prov`."""
        self.prov = prov
        self._start = self.at
        self._results = []
        mark = self.tokens[self.at]
        if mark[:1] == "%":
            if self.tokens[self.at + 1] == "=" and mark[1:2] not in ('"', ""):  # most lines
                self._results.append(mark[1:])
                self.at += 2
            else:
                self._results = self.several(OpParser._value_name)
                self.expect("=")

    def _value_name(self) -> str:
        return self.sigil("%", "a value such as %x")

    def result_mark(self) -> None:
        """Parses the name of a single definition (a parameter, a constant)."""
        self._start = self.at
        self._results = [self._value_name()]

    def no_result(self) -> None:
        """Raises ParseError WIR505 if the line names a result."""
        if self._results:
            self.fail("WIR505", "this op has no result", self._start)

    def result(self, type: ir.Type) -> ir.Value:
        """Defines the only result of the line."""
        return self.define(self.result_name, type, self._start)

    def results(self, types: Sequence[ir.Type]) -> tuple[ir.Value, ...]:
        """Defines all results of the line."""
        self._count(len(types))
        pairs = enumerate(zip(self._results, types, strict=True))
        return tuple([self.define(name, type, self._start + 2 * n) for n, (name, type) in pairs])

    def _count(self, count: int) -> None:
        if len(self._results) != count:
            message = f"{len(self._results)} results are named, but there are {count}"
            self.fail("WIR505", message, self._start)

    def define(self, name: str, type: TypeT, index: int) -> ir.Value[TypeT]:
        """Defines a new value in scope; a second one of the same name is WIR506."""
        if name in self.values:
            self.fail("WIR506", f"value {self.tokens[index]} is defined twice", index)
        value = ir.Value(name, type)
        self.values[name] = value
        return value

    @property
    def result_count(self) -> int:
        """Number of results that the line names."""
        return len(self._results)

    @property
    def result_name(self) -> str:
        """Name of the only result of the line."""
        self._count(1)
        return self._results[0]

    def reference(self) -> str:
        """Parses `@name`."""
        return self.sigil("@", "a name such as @f")

    def target(self) -> str:
        """Parses an operator's name."""
        return self.name("an operator such as aten::add")

    def symbol(self) -> str:
        """Parses a declared symbol."""
        start = self.at
        symbol = self.name("a symbol")
        if symbol not in self.symbols:
            self.undeclared(symbol, start)
        return symbol

    def own_names(self, read: Callable[[OpParser], T]) -> T:
        """Calls `read` with a kernel's names in scope of expressions, instead of the program's."""
        outer = self.kinds, self._simple, self.values
        self.kinds, self._simple, self.values = ir.KernelNames(), {}, {}
        result = read(self)
        self.kinds, self._simple, self.values = outer
        if isinstance(result, ir.KernelParam):
            self.kinds.update(ir.KernelNames((result,)))
        return result


_CONSTANTS: Mapping[str, Callable[[OpParser], ir.Arg]] = {
    "complex": OpParser.complex,
    "device": lambda p: p.device_name(p.name("a device type")),
    "memory_format": lambda p: p.choice(_FORMATS, "memory format"),
    "layout": lambda p: p.choice(_LAYOUTS, "layout"),
}
"""Readers of arguments with parentheses that are not expressions, by their first word."""
