r"""Tokens of the text form, as plain strings: a program of 100,000 ops has millions of them.

The first character determines the kind: `%x` is a value, `@f` a reference, `"..."` a string, `#1` a
provenance mark, a digit a number, a letter a name (`aten::add.out` is one), `{{{` a source block without
its lines of braces, a newline the end of a line, '' the end of the text. Any other token is an operator.
Blanks and comments are dropped; a comment starts at a `#` that no digit follows. Positions of tokens are
recomputed on request.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from wrapper_ir.errors import ParseError

BLOCK = "{{{"
"""Prefix of a block token; no operator starts with it."""

_STRING = r'"(?:[^"\\\n]|\\.)*"?'  # `unquote` reports a missing closing quote
_TOKEN = re.compile(
    rf"""[ \t\r]*(?:\#(?![0-9])[^\n]*)?(
    \n
  | (?<![\w)])%(?:[\w.]+|{_STRING})            # after an operand, % is the remainder
  | @(?:[\w.]+|{_STRING})
  | [A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*(?:::[\w.]+)*
  | \d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)?
  | {_STRING}
  | \#\d+
  | // | \*\* | == | != | <= | >= | .
    )""",
    re.VERBOSE | re.ASCII,
)
_OPENER = re.compile(rf"{_STRING}|\#(?![0-9])[^\n]*|(\{{{{3,}})[ \t\r]*\n")
_NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_DIGITS = frozenset("0123456789")
_KINDS = {'"': "STRING", "\n": "NEWLINE", "%": "VALUE", "@": "REFERENCE", "#": "MARK", "{": "BLOCK"}


class _Segment(NamedTuple):
    """A section of text without blocks: its bounds, and the index of its first token."""

    start: int
    end: int
    first: int


def kind_of(token: str) -> str:
    """Returns NAME, NUMBER, VALUE, REFERENCE, STRING, MARK, BLOCK, NEWLINE, OP or EOF."""
    c = token[:1]
    if c in _NAME_START or c > "\x7f":
        return "NAME"
    if not c:
        return "EOF"
    if c in _DIGITS or (c == "." and len(token) > 1):
        return "NUMBER"
    kind = _KINDS.get(c)
    return kind if kind and (len(token) > 1 or c in '"\n') else "OP"


class Source:
    """A text with its tokens; `tokens` ends with a newline and two empty strings."""

    def __init__(self, text: str) -> None:
        """Raises ParseError WIR504 for a source block without end."""
        self.text = text if text.endswith("\n") else f"{text}\n"
        self._given = len(text)
        self.tokens: list[str] = []
        self._segments: list[_Segment] = []
        for start, end, block in self._split():
            self._segments.append(_Segment(start, end, len(self.tokens)))
            self.tokens += _TOKEN.findall(self.text, start, end)
            if block is not None:
                self.tokens.append(BLOCK + block)
        self.tokens += ["\n", "", ""]

    def _split(self) -> Iterator[tuple[int, int, str | None]]:
        """Yields (start, end, the source block after it) of each section without blocks."""
        text, start, position = self.text, 0, 0
        while True:
            opener = _OPENER.search(text, position)
            if opener is None:
                yield start, len(text), None
                return
            position = opener.end()
            if opener[1] is None:
                continue
            closing = re.compile(rf"\n\}}{{{len(opener[1])}}}[ \t\r]*(?=\n)").search(text, position - 1)
            if closing is None:
                line, column = self._place(opener.start())
                hint = f"end it with a line of {len(opener[1])} closing braces"
                raise ParseError(
                    "WIR504", "this source block has no end", line=line, column=column, hint=hint
                )
            end = opener.start()
            while end > start and text[end - 1] in " \t":
                end -= 1
            yield start, end, text[position : max(position, closing.start())]
            start = position = closing.end()

    def locate(self, index: int) -> tuple[int, int]:
        """Returns line and column of a token, from 1."""
        segment = self._segments[bisect_right(self._segments, index, key=lambda s: s.first) - 1]
        position = segment.end
        for number, match in enumerate(_TOKEN.finditer(self.text, segment.start, segment.end), segment.first):
            if number == index:
                position = match.start(1)
                break
        return self._place(min(position, self._given))

    def _place(self, position: int) -> tuple[int, int]:
        return self.text.count("\n", 0, position) + 1, position - self.text.rfind("\n", 0, position)

    @staticmethod
    def excerpt_of(text: str, line: int, column: int) -> str:
        """Returns the line of `text` with a caret under the column; a long line is truncated around it."""
        lines = text.split("\n", line)
        excerpt = lines[line - 1] if 0 < line <= len(lines) else ""
        first = max(0, column - 80)
        before = "..." if first else ""
        excerpt = excerpt[first : first + 110].replace("\t", " ").rstrip("\r")
        return f"  {before}{excerpt}\n  {' ' * (len(before) + column - 1 - first)}^"
