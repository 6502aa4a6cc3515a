"""A program's text in Python source: what an identifier, a string, a comment and a docstring may hold."""

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
"""An identifier, and not a keyword, that Python lets nobody bind."""


def is_python_name(text: str) -> bool:
    """Whether Python reads `text` as one identifier that can be bound, and spells it the same: it normalises identifiers
    (NFKC), so that `ﬁ` would be the name `fi`."""
    return (
        text.isidentifier()
        and not keyword.iskeyword(text)
        and text != _UNASSIGNABLE
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
    )


def python_identifier(text: str) -> str:
    """`text` as an ASCII identifier that is not a keyword, a builtin or a dunder; different texts may give the same one
    (`python_names` tells them apart)."""
    name = ascii_identifier(text)
    return f"{name}_" if _is_reserved(name) else name


def python_names(taken: Iterable[str] = ()) -> Namer:
    """Gives out identifiers, for the values, symbols and functions of a module or a function; `taken` is what the emitter
    itself uses there."""
    return Namer(_is_reserved, taken)


def _is_reserved(name: str) -> bool:
    # `__file__`, `__builtins__` or `__getattr__` as a module's variable means something to Python.
    return name in _RESERVED or (name.startswith("__") and name.endswith("__"))


def python_string(text: str) -> str:
    """A string literal on one line, in double quotes where that needs no more escapes. ASCII escapes stand for characters
    that do not print (line breaks, NUL, lone surrogates, marks of direction)."""
    literal = repr(text)
    return f'"{literal[1:-1]}"' if literal[0] == "'" and '"' not in text else literal


def python_comment(text: str) -> str:
    """What may stand after `#`: one line. Spaces and line breaks become a space, other characters that do not print their
    escapes."""
    return printable(_SPACE.sub(" ", text).strip(" "))


def python_docstring(text: str) -> str:
    r"""What may stand between `\"\"\"` and `\"\"\"`: one line whose value is `text`, a lone surrogate as its escape: Python 3.13
    compiles no docstring that has one."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return printable(text.replace("\\", "\\\\")).replace('"', '\\"')


def python_attribute(base: str, name: str) -> str:
    """The expression of an attribute: `base.name` where Python reads that so, `getattr(base, "name")` otherwise."""
    return f"{base}.{name}" if is_python_name(name) else f"getattr({base}, {python_string(name)})"


def python_keyword(name: str, value: str) -> str:
    """An argument by keyword, of a call: `name=value`, or `**{"name": value}` for a name that cannot be written so."""
    return f"{name}={value}" if is_python_name(name) else f"**{{{python_string(name)}: {value}}}"
