"""Parser of whole programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import get_args

from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.support.collection import paused_collection
from wrapper_ir.support.tokens import Source
from wrapper_ir.support.versions import TEXT
from wrapper_ir.text.op_parser import OpParser
from wrapper_ir.text.ops import op_words, read_op
from wrapper_ir.text.parts import Fields
from wrapper_ir.text.syntax import class_form, syntax_of

_TABLE = "provenance"
_TARGET, _SYMBOL, _CONSTANT = class_form(ir.Target), class_form(ir.SymbolDef), class_form(ir.Constant)
_EXTERN, _PROVENANCE = class_form(ir.ExternDef), class_form(ir.Provenance)
_KERNELS = {cls.kind: class_form(cls) for cls in get_args(ir.KernelDef)}
_TYPES = [syntax_of(cls) for cls in get_args(ir.Type) if cls is not ir.TensorType]
_TYPE_WORDS = {word: syntax.read for syntax in _TYPES for word in syntax.words}


@paused_collection()
def parse_program(text: str, ops: ir.OpSet = ir.OPS) -> ir.Program:
    """Parses a program; the inverse of `print_program`. The result is not verified.

    `ops` are the allowed ops. Raises ParseError with the line, the column and an excerpt:

    - WIR500 unexpected text, WIR501 another version, WIR502 malformed string, WIR503 unknown word
    - WIR504 source block without end, WIR505 wrong number of results, WIR506 defined twice
    - WIR507 unknown provenance mark, WIR550 to WIR553 expressions, undeclared symbols and undefined values
    - WIR013, WIR014 operand or result of a kind that the op does not accept
    """
    try:
        return _ProgramParser(Source(text), ops).program()
    except ParseError as error:
        if not error.line:
            raise
        line, column = error.line, error.column
        message = error.message.removeprefix(f"line {line}, column {column}: ")
        message += "\n" + Source.excerpt_of(text, line, column)
        raise ParseError(error.code, message, line=line, column=column, hint=error.hint) from error.__cause__


class _ProgramParser(OpParser):
    def __init__(self, source: Source, ops: ir.OpSet) -> None:
        super().__init__(source, _TYPE_WORDS, ops)
        self._marks: dict[str, ir.Provenance] = {}

    def program(self) -> ir.Program:
        """Parses the whole text."""
        self._marks = self._table()
        self.skip_lines()
        self._version()
        self.skip_lines()
        target = ir.Target()
        if self.tokens[self.at] == "target":
            target = _TARGET.read(self)
            self.end_line()
        self.device = target.device
        make: Callable[..., ir.Program] = ir.Program  # its fields are the names in `_SECTIONS`
        fields: dict[str, list[object]] = {section: [] for section, _ in _SECTIONS.values()}
        while True:
            self.skip_lines()
            word = self.tokens[self.at]
            if word == "":
                return make(target=target, **{section: tuple(x) for section, x in fields.items()})
            if word not in _SECTIONS:
                self.unknown("declaration", [*_SECTIONS, _TABLE])
            section, read = _SECTIONS[word]
            fields[section].append(read(self))
            self.end_line()

    def _version(self) -> None:
        if self.tokens[self.at] != "wir":
            self.unexpected(f"`wir {TEXT.version}` in the first line")
        self.at += 1
        start = self.at
        version = self.string() if self.tokens[start][:1] == '"' else self.tokens[start]
        if version != TEXT.version:
            self.fail("WIR501", f"another version: {TEXT.refusal(version)}", start)
        self.at = start + 1
        self.end_line()

    def _table(self) -> dict[str, ir.Provenance]:
        """Parses the provenance table first, because ops are created with their provenance."""
        index = 0
        while True:
            try:
                index = self.tokens.index(_TABLE, index + 1)
            except ValueError:
                return {}
            if self.tokens[index - 1] == "\n" == self.tokens[index + 1]:
                break
        self.at = index + 1
        table: dict[str, ir.Provenance] = {}
        self.skip_lines()
        while (mark := self.tokens[self.at])[:1] == "#":
            if mark in table:
                self.fail("WIR506", f"provenance {mark} is given twice")
            self.at += 1
            table[mark] = _PROVENANCE.read(self)
            self.end_line()
            self.skip_lines()
        if self.tokens[self.at] != "":
            self.unexpected("a provenance mark such as #1, or the end of the text")
        del self.tokens[index:]
        self.tokens += ["", ""]
        self.at = 0
        return table

    def symbol_def(self) -> ir.SymbolDef:
        """Parses the declaration of a symbol, which is in scope from here on."""
        start = self.at + 1
        symbol: ir.SymbolDef = _SYMBOL.read(self)
        if symbol.name in self.symbols:
            self.fail("WIR506", f"symbol {symbol.name} is declared twice", start)
        self.declare_symbol(symbol)
        return symbol

    def extern(self) -> ir.ExternDef:
        """Parses the declaration of an operator."""
        start = self.at + 1
        extern: ir.ExternDef = _EXTERN.read(self)
        if "(" not in extern.schema:
            self.fail("WIR500", "this is not an operator schema", start, hint='"namespace::name(...) -> ..."')
        return extern

    def kernel(self) -> ir.KernelDef:
        """Parses a kernel of any kind."""
        start = self.at
        self.at += 1
        form = self.choice(_KERNELS, "kind of kernel")
        self.at = start
        kernel: ir.KernelDef = form.read(self)
        return kernel

    def function(self) -> ir.Function:
        """Parses a function with its body, which is a separate scope of values."""
        outer = self.values
        self.values = dict(outer)
        fields: Fields = {}
        syntax, start = syntax_of(ir.Function), self.at
        syntax.fields(self, fields)
        self.expect("{")
        self.end_line()
        fields["body"] = self._body()
        self.values = outer
        return syntax.finish(self, fields, start)

    def _body(self) -> tuple[ir.OpBase, ...]:
        body: list[ir.OpBase] = []
        tokens, words, marks = self.tokens, op_words(self.ops), self._marks
        prov = ir.UNKNOWN
        while True:
            token = tokens[self.at]
            if token == "\n":
                self.at += 1
                continue
            if token == "}":
                self.at += 1
                return tuple(body)
            if token == "":
                self.unexpected("an op or `}`")
            if marks:  # of a one-line op, so that the op is created with its provenance
                prov = marks.get(tokens[tokens.index("\n", self.at) - 1], ir.UNKNOWN)
            ops = read_op(self, words, prov)
            if tokens[self.at] != "\n":
                ops = self._marked(ops)
                self.end_line()
            else:
                self.at += 1
            body += ops

    def _marked(self, ops: tuple[ir.OpBase, ...]) -> tuple[ir.OpBase, ...]:
        if self.tokens[self.at][:1] != "#":
            return ops
        prov = self._marks.get(self.tokens[self.at])
        if prov is None:
            self.fail("WIR507", f"provenance {self.shown()} is not in the table")
        self.at += 1
        return ops if ops[0].prov is prov else tuple(dataclasses.replace(op, prov=prov) for op in ops)


_SECTIONS: Mapping[str, tuple[str, Callable[[_ProgramParser], object]]] = {
    "symbol": ("symbols", _ProgramParser.symbol_def),
    "const": ("constants", _CONSTANT.read),
    "mutable": ("constants", _CONSTANT.read),
    "extern": ("externs", _ProgramParser.extern),
    "kernel": ("kernels", _ProgramParser.kernel),
    "func": ("functions", _ProgramParser.function),
}
"""By the first word of a declaration: the program's field that it belongs to, and its reader."""
