"""Escapes for non-printable characters in messages and terminal output."""

from __future__ import annotations

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape(c: str) -> str:
    """Returns a character as it appears in a quoted string."""
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isprintable():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def printable(text: str) -> str:
    """Returns `text` on one line for messages and consoles, with escapes for non-printable characters.

    Consoles cannot encode lone surrogates.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else escape(c) for c in text)


def terminal_text(text: str) -> str:
    """Returns `text` for a terminal, with escapes for non-printable characters except line breaks and tabs.

    Control characters could move the cursor, overwrite text or reorder the line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escape(c) for c in text)
