"""Characters that do not print, in texts for people and terminals."""

from __future__ import annotations

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(c: str) -> str:
    """A character of a quoted text."""
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isprintable():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def printable(text: str) -> str:
    """`text` on one line, with escapes for characters that do not print, for messages and consoles: a lone surrogate can be
    written to none."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c) for c in text)


def terminal_text(text: str) -> str:
    """`text` for a terminal: of the characters that do not print, only line breaks and tabs stay, for escapes of others move the
    cursor, change what stands there already, or reorder the line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escape(c) for c in text)
