"""Cursor over tokens, with readers of names, strings, numbers and lists."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn, Self, TypeVar

from wrapper_ir.errors import ParseError
from wrapper_ir.support.quoting import unquote
from wrapper_ir.support.tokens.lexer import Source, kind_of

T = TypeVar("T")

MAX_DEPTH = 100
"""The maximum nesting of lists, parentheses, calls, signs and expression nodes, so that hostile text cannot
exhaust the stack."""

_SHOWN = 40
_UNSEEN = {"EOF": "the end of the text", "NEWLINE": "the end of the line", "BLOCK": "a source block"}


class Cursor:
    """A position `at` in a list of tokens, with readers of simple items."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = source.tokens
        self.at = 0

    def fail(self, code: str, message: str, index: int | None = None, *, hint: str = "") -> NoReturn:
        """Raises ParseError at the token `index` (default: the next one)."""
        line, column = self.source.locate(self.at if index is None else index)
        raise ParseError(code, message, line=line, column=column, hint=hint)

    def unexpected(self, expected: str, code: str = "WIR500") -> NoReturn:
        """Raises ParseError: the next token is not what was expected."""
        self.fail(code, f"expected {expected}, found {self.shown()}")

    def shown(self) -> str:
        """Returns the next token for a message."""
        token = self.tokens[self.at]
        text = f"`{token[:_SHOWN]}`" if len(token) <= _SHOWN else f"`{token[:_SHOWN]}...`"
        return _UNSEEN.get(kind_of(token), text)

    def accept(self, token: str) -> bool:
        """Consumes the next token if it is this one."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str, code: str = "WIR500") -> None:
        """Consumes this token; any other raises ParseError with `code`."""
        if self.tokens[self.at] != token:
            self.unexpected(f"`{token}`", code)
        self.at += 1

    def skip_lines(self) -> None:
        """Skips line ends."""
        while self.tokens[self.at] == "\n":
            self.at += 1

    def begins_line(self, starts: Callable[[str], bool]) -> bool:
        """Advances to the next line if its first token satisfies `starts`."""
        here = self.at
        self.skip_lines()
        if starts(self.tokens[self.at]):
            return True
        self.at = here
        return False

    def end_line(self) -> None:
        """Consumes the end of the line."""
        if not self.accept("\n"):
            self.unexpected("the end of the line")

    def items(self, close: str, read: Callable[[Self], T]) -> tuple[T, ...]:
        """Reads items separated by commas, up to `close`. Line ends and a trailing comma are allowed."""
        out: list[T] = []
        tokens = self.tokens
        while True:
            if tokens[self.at] == "\n":
                self.skip_lines()
            if tokens[self.at] == close:
                break
            out.append(read(self))
            after = self.at
            if tokens[after] == "\n":
                self.skip_lines()
            if tokens[self.at] == ",":
                self.at += 1
            elif tokens[self.at] != close:
                self.at = after
                self.unexpected(f"`,` or `{close}`")
        self.at += 1
        return tuple(out)

    def several(self, read: Callable[[Self], T]) -> list[T]:
        """Reads one or more items, separated by commas."""
        out = [read(self)]
        while self.accept(","):
            out.append(read(self))
        return out

    def name(self, what: str) -> str:
        """Reads a bare or quoted name."""
        token = self.tokens[self.at]
        if kind_of(token) != "NAME":
            return self.string(what)
        self.at += 1
        return token

    def string(self, what: str = "a string") -> str:
        """Reads a quoted string."""
        token = self.tokens[self.at]
        if token[:1] != '"':
            self.unexpected(what)
        self.at += 1
        return self._unquoted(token)

    def sigil(self, sigil: str, what: str) -> str:
        """Reads the name after `%` or `@`."""
        token = self.tokens[self.at]
        if token[:1] != sigil or len(token) < 2:
            self.unexpected(what)
        self.at += 1
        return self._unquoted(token[1:]) if token[1] == '"' else token[1:]

    def _unquoted(self, token: str) -> str:
        try:
            return unquote(token)
        except ParseError as error:
            self.fail(error.code, error.message, self.at - 1, hint=error.hint)

    def integer(self, what: str = "an integer") -> int:
        """Reads an integer."""
        sign = -1 if self.accept("-") else 1
        token = self.tokens[self.at]
        if not (token.isascii() and token.isdecimal()):
            self.unexpected(what)
        try:
            number = int(token)
        except ValueError:  # more digits than the interpreter converts
            self.fail("WIR500", "this number has too many digits")
        self.at += 1
        return sign * number

    def number(self) -> int | float | bool:
        """Reads a constant: `true`, `-3`, `1.5`, `-inf`."""
        if self.tokens[self.at] in ("true", "false"):
            self.at += 1
            return self.tokens[self.at - 1] == "true"
        sign = self.accept("-")
        token = self.tokens[self.at]
        if not token.isdecimal():
            if kind_of(token) != "NUMBER" and token not in ("inf", "nan"):
                self.unexpected("a number")
            self.at += 1
            if token == "nan":  # one object, so that equal texts are equal programs
                return math.nan
            return -float(token) if sign else float(token)
        return -self.integer() if sign else self.integer()

    def choice(self, table: Mapping[str, T], what: str) -> T:
        """Reads a word and returns its entry; an unknown word is WIR503."""
        token = self.tokens[self.at]
        entry = table.get(token)
        if entry is None:
            self.unknown(what, table)
        self.at += 1
        return entry

    def unknown(self, what: str, choices: Collection[str], index: int | None = None) -> NoReturn:
        """Raises ParseError WIR503 for an unknown word, with the nearest known word as a hint."""
        token = self.tokens[self.at if index is None else index]
        if kind_of(token) != "NAME":
            self.unexpected(what)
        near = difflib.get_close_matches(token[:_SHOWN], choices, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(sorted(choices))}"
        self.fail("WIR503", f"unknown {what} `{token[:_SHOWN]}`", index, hint=hint)
