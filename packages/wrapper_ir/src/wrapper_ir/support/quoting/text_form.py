"""Names and strings of the text form: bare if they are plain, otherwise quoted with escapes."""

from __future__ import annotations

import re
from functools import lru_cache

from wrapper_ir.errors import ParseError
from wrapper_ir.escapes import escape

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED = re.compile(r"[A-Za-z0-9_.]+")
_TARGET = re.compile(r"[A-Za-z_]\w*(?:::[\w.]+)+", re.ASCII)
_UNESCAPES = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = re.compile(r"\\(?:([\\\"nrt])|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))", re.DOTALL)
_UNSAFE = re.compile(r'["\\]')


def quote(text: str) -> str:
    r"""Returns `text` in double quotes; non-printable characters become `\n`, `\uXXXX` or `\UXXXXXXXX`."""
    if text.isprintable():
        if '"' in text or "\\" in text:
            text = _UNSAFE.sub(r"\\\g<0>", text)
        return f'"{text}"'
    return f'"{"".join(map(escape, text))}"'


def unquote(token: str) -> str:
    """Inverts `quote`. Raises ParseError WIR502 for an unknown escape or a missing quote."""
    if len(token) < 2 or token[0] != '"' or token[-1] != '"':
        raise ParseError("WIR502", "this string has no closing quote")
    inner = token[1:-1]
    return _ESCAPED.sub(_unescape, inner) if "\\" in inner else inner


def _unescape(match: re.Match[str]) -> str:
    simple, short, long, other = match.groups()
    if simple:
        return _UNESCAPES[simple]
    code = int(short or long, 16) if other is None else -1
    if not 0 <= code <= 0x10FFFF:
        raise ParseError(
            "WIR502", f"unknown escape {match[0]}", hint=r"write \\ for a backslash, \" for a quote"
        )
    return chr(code)


def value_name(name: str) -> str:
    """Returns a name as written after its sigil; letters, digits, `_` and `.` need no quotes."""
    plain = name.isascii() and name.replace(".", "_").isidentifier()  # most names; faster than the pattern
    return name if plain or _DOTTED.fullmatch(name) else quote(name)


def plain_name(name: str) -> str:
    """Returns a name without sigil; an ASCII identifier needs no quotes."""
    return name if _PLAIN.fullmatch(name) else quote(name)


def symbol_name(name: str) -> str:
    """Returns the name of a symbol; an identifier needs no quotes, as in expressions."""
    return name if name.isidentifier() else quote(name)


@lru_cache(maxsize=1 << 10)
def target_name(name: str) -> str:
    """Returns an operator's name; `namespace::op.overload` needs no quotes."""
    return name if _TARGET.fullmatch(name) else quote(name)
