r"""Quoting in C++ source: identifiers, strings and comments.

Before tokenization, a compiler may replace trigraphs (`??/` is a backslash), and joins a line that ends in
a backslash (GCC: also before trailing spaces) with the next one. The quoted text contains neither, for any
C++ standard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wrapper_ir.escapes import printable
from wrapper_ir.support.quoting.names import Namer, ascii_identifier

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue
contract_assert decltype default delete do double dynamic_cast else enum explicit export extern false float
for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast requires return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename typeof union
unsigned using virtual void volatile wchar_t while xor xor_eq assert defined errno linux main restrict std
unix
"""
_RESERVED = frozenset(_WORDS.split())
"""Keywords up to C++26, alternative tokens, and predefined macros and names."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_TRIGRAPH = re.compile(r"(?<=\?)\?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def is_cpp_name(text: str) -> bool:
    """Returns whether `text` is an ASCII identifier, not a keyword, not reserved (`__x`, `x__y`, `_X`)."""
    return _NAME.fullmatch(text) is not None and not _is_reserved(text)


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or "__" in name or (name[0] == "_" and name[1:2].isupper())


def cpp_identifier(text: str) -> str:
    """Returns `text` as an identifier that satisfies `is_cpp_name`. It may be equal for different texts,
    unlike those of `cpp_names`."""
    return cpp_names()(text)


class _CppNamer(Namer):
    """Namer that shortens runs of `_` and prefixes a leading one, since a suffix would fix neither."""

    def __call__(self, wish: str) -> str:
        name = re.sub("__+", "_", ascii_identifier(wish)).rstrip("_") or "v"
        return super().__call__(f"v{name}" if name[0] == "_" else name)


def cpp_names(names: Iterable[str] = ()) -> Namer:
    """Returns a namer for a translation unit or a function; `names` are those that the emitter uses."""
    return _CppNamer(_is_reserved, names)


def _octal(c: str) -> str:
    # An octal escape has at most three digits; a hexadecimal one would include all following digits.
    return "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))


def _literal(text: str) -> str:
    quoted = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _octal(c)) for c in text)
    return '"' + _TRIGRAPH.sub(r"\\?", quoted) + '"'


def cpp_string(text: str) -> str:
    """Returns a one-line string literal of `text` in UTF-8, with lone surrogates as three bytes.

    The literal may contain NULs, so take its length from the array: `std::string_view(s, sizeof(s) - 1)`.
    """
    return _literal(text)


def cpp_message(text: str) -> str:
    """Returns a string literal for messages (`static_assert`, `#line`), which allow no numeric escapes.

    Non-printable characters are spelled out (`\\u2028`).
    """
    return _literal(printable(text))


def _comment(text: str) -> str:
    """Returns one printable line without trigraphs and without a trailing backslash."""
    line = printable(_SPACE.sub(" ", text).strip(" "))
    while "??" in line:
        line = line.replace("??", "? ?")
    return f"{line}." if line.endswith("\\") else line


def cpp_line_comment(text: str) -> str:
    """Returns text for a `//` comment, on one line.

    Runs of white space become one space, and other non-printable characters their escapes. A period follows a
    trailing backslash, which would otherwise join the next line.
    """
    return _comment(text)


def cpp_block_comment(text: str) -> str:
    """Returns text for a `/* */` comment, as `cpp_line_comment`, with a space in every `*/` and `/*`."""
    line = _comment(text).replace("*/", "* /").replace("/*", "/ *")
    return f"{line} " if line.endswith(("*", "/")) else line
