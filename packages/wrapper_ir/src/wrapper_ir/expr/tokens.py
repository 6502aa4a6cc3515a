"""Tokens of expressions: what the parser asks of its caller, and a small lexer for a text of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from wrapper_ir.errors import ParseError

__all__ = ["Lexer", "Token", "TokenStream", "syntax_error"]


class Token(Protocol):
    """A token: `kind` is NAME, NUMBER, VALUE, OP or EOF; `pos` means something to the stream alone."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def pos(self) -> int: ...


class TokenStream(Protocol):
    """What the parser needs. `and`, `or`, `not` and functions are NAMEs; `//`, `**`, `<=` ... one OP each."""

    def peek(self) -> Token:
        """The next token, again and again; at the end one of kind EOF."""
        ...

    def next(self) -> Token:
        """The next token, consumed."""
        ...


def syntax_error(code: str, message: str, token: Token, *, hint: str = "") -> ParseError:
    """Tokens that know their line and column (a program's do) say them; else the offset is the column."""
    line = getattr(token, "line", 1)  # optional, hence not in the Protocol
    column = getattr(token, "column", token.pos + 1)  # as above
    return ParseError(code, message, line=line, column=column, hint=hint)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    pos: int


_TOKEN = re.compile(
    r"""\s*(?:
    (?P<NUMBER>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<NAME>[^\W\d]\w*)
  | (?P<VALUE>%[\w.]+)
  | (?P<OP>//|\*\*|==|!=|<=|>=|[-+*/%<>(),])
  | (?P<EOF>$)
    )""",
    re.VERBOSE,
)


class Lexer:
    """Tokens of one expression; `%x` is a value where an operand may stand, else a remainder and a name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._last = ""
        self._token = self._scan()

    def peek(self) -> _Token:
        """The next token."""
        return self._token

    def next(self) -> _Token:
        """The next token, consumed."""
        token = self._token
        self._token = self._scan()
        return token

    def _scan(self) -> _Token:
        match = _TOKEN.match(self._text, self._pos)
        if match is None or match.lastgroup is None:
            place = _Token("OP", self._text[self._pos : self._pos + 1], self._pos)
            raise syntax_error(
                "WIR550", f"unexpected character in {self._text[self._pos : self._pos + 20]!r}", place
            )
        kind, text = match.lastgroup, match[match.lastgroup]
        if kind == "VALUE" and self._last not in ("", "(", ","):
            kind, text = "OP", "%"
        start = match.start(match.lastgroup)
        self._pos = start + len(text)
        self._last = text
        return _Token(kind, text, start)
