"""Quoting in Python source: identifiers, strings, comments and docstrings."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable

from wrapper_ir.escapes import printable
from wrapper_ir.support.quoting.names import Namer, ascii_identifier

_RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_UNASSIGNABLE = "__debug__"
"""An identifier that Python refuses to bind although it is not a keyword."""


def is_python_name(text: str) -> bool:
    """Returns whether `text` is a bindable identifier, unchanged by NFKC normalization (`ﬁ` is `fi`)."""
    return (
        text.isidentifier()
        and not keyword.iskeyword(text)
        and text != _UNASSIGNABLE
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
    )


def python_identifier(text: str) -> str:
    """Returns `text` as an ASCII identifier that is not a keyword, a builtin or a dunder name.

    It may be equal for different texts, unlike those of `python_names`.
    """
    name = ascii_identifier(text)
    return f"{name}_" if _is_reserved(name) else name


def python_names(names: Iterable[str] = ()) -> Namer:
    """Returns a namer for a module or a function; `names` are those that the emitter uses there."""
    return Namer(_is_reserved, names)


def _is_reserved(name: str) -> bool:
    # Python interprets module variables such as `__file__`, `__builtins__` and `__getattr__`.
    return name in _RESERVED or (name.startswith("__") and name.endswith("__"))


def python_string(text: str) -> str:
    """Returns a one-line string literal, in double quotes if that needs no more escapes.

    Non-printable characters (line breaks, NUL, lone surrogates, direction marks) become ASCII escapes.
    """
    literal = repr(text)
    return f'"{literal[1:-1]}"' if literal[0] == "'" and '"' not in text else literal


def python_comment(text: str) -> str:
    """Returns text for a `#` comment, on one line.

    Runs of white space become one space, and other non-printable characters their escapes.
    """
    return printable(_SPACE.sub(" ", text).strip(" "))


def python_docstring(text: str) -> str:
    r"""Returns text for the inside of a `\"\"\"` string, on one line, whose value is `text`.

    Lone surrogates become escapes, because Python 3.13 does not compile a docstring with one.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    return printable(text.replace("\\", "\\\\")).replace('"', '\\"')


def python_attribute(base: str, name: str) -> str:
    """Returns an attribute expression: `base.name` for a Python name, otherwise `getattr(base, "name")`."""
    return f"{base}.{name}" if is_python_name(name) else f"getattr({base}, {python_string(name)})"


def python_keyword(name: str, value: str) -> str:
    """Returns a keyword argument: `name=value` for a Python name, otherwise `**{"name": value}`."""
    return f"{name}={value}" if is_python_name(name) else f"**{{{python_string(name)}: {value}}}"
