"""Reads a whole program from text."""

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
from wrapper_ir.text.syntax import record_form, syntax_of

_TABLE = "provenance"
_TARGET, _SYMBOL, _CONSTANT = record_form(ir.Target), record_form(ir.SymbolDef), record_form(ir.Constant)
_EXTERN, _PROVENANCE = record_form(ir.ExternDef), record_form(ir.Provenance)
_KERNELS = {cls.kind: record_form(cls) for cls in get_args(ir.KernelDef)}
_TYPES = [syntax_of(cls) for cls in get_args(ir.Type) if cls is not ir.TensorType]
_TYPE_WORDS = {word: syntax.read for syntax in _TYPES for word in syntax.words}


@paused_collection()
def parse_program(text: str, ops: ir.OpSet = ir.OPS) -> ir.Program:
    """The program that `text` spells; the inverse of `print_program`. Nothing is verified beyond what reading needs.

    Raises ParseError with line, column and the line in question: WIR500 unexpected text, WIR501 another version,
    WIR502 malformed string, WIR503 unknown word, WIR504 source block without end, WIR505 wrong number of results,
    WIR506 defined twice, WIR507 unknown provenance mark, WIR550 to WIR553 expressions, undeclared symbols and
    undefined values, and WIR013 or WIR014 for a value of a kind that an op does not take. `ops` are the ops that may occur.
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
        """The whole text."""
        self._marks = self._table()
        self.skip_lines()
        self._version()
        self.skip_lines()
        target = ir.Target()
        if self.tokens[self.at] == "target":
            target = _TARGET.read(self)
            self.end_line()
        self.device = target.device
        made: Callable[..., ir.Program] = ir.Program  # its fields are the names in `_SECTIONS`
        found: dict[str, list[object]] = {section: [] for section, _ in _SECTIONS.values()}
        while True:
            self.skip_lines()
            word = self.tokens[self.at]
            if word == "":
                return made(target=target, **{section: tuple(x) for section, x in found.items()})
            if word not in _SECTIONS:
                self.unknown("declaration", [*_SECTIONS, _TABLE])
            section, read = _SECTIONS[word]
            found[section].append(read(self))
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
        """The provenance table, read ahead because ops are made with their provenance."""
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
        """The declaration of a symbol, which is known from here on."""
        start = self.at + 1
        symbol: ir.SymbolDef = _SYMBOL.read(self)
        if symbol.name in self.symbols:
            self.fail("WIR506", f"symbol {symbol.name} is declared twice", start)
        self.declare_symbol(symbol)
        return symbol

    def extern(self) -> ir.ExternDef:
        """The declaration of an operator."""
        start = self.at + 1
        extern: ir.ExternDef = _EXTERN.read(self)
        if "(" not in extern.schema:
            self.fail("WIR500", "this is not an operator schema", start, hint='"namespace::name(...) -> ..."')
        return extern

    def kernel(self) -> ir.KernelDef:
        """A kernel of any kind."""
        start = self.at
        self.at += 1
        form = self.choice(_KERNELS, "kind of kernel")
        self.at = start
        made: ir.KernelDef = form.read(self)
        return made

    def function(self) -> ir.Function:
        """A function with its body, whose values are its own."""
        outer = self.values
        self.values = dict(outer)
        found: Fields = {}
        syntax, start = syntax_of(ir.Function), self.at
        syntax.fields(self, found)
        self.expect("{")
        self.end_line()
        found["body"] = self._body()
        self.values = outer
        return syntax.finish(self, found, start)

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
            if marks:  # that of an op that stands on one line is known before the op is made
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
"""Of which field of a program the line is that begins with a word, and what reads it."""
