r"""A program's text in C++ source: what an identifier, a string and a comment may hold.

Before it reads a token, a compiler may replace trigraphs (`??/` is a backslash) and joins a line that ends in a backslash
(GCC: also one before spaces) with the next one; both are told apart here, whatever the standard chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wrapper_ir.escapes import printable
from wrapper_ir.support.quoting.names import Namer, ascii_identifier

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue contract_assert decltype
default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while
xor xor_eq
assert defined errno linux main restrict std unix
"""
_RESERVED = frozenset(_WORDS.split())
"""Keywords of C++ to 2026, alternative tokens, and macros or names that mean something without a declaration."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_TRIGRAPH = re.compile(r"(?<=\?)\?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def is_cpp_name(text: str) -> bool:
    """Whether `text` is an ASCII identifier that a program may declare: no keyword, nothing that is reserved to the
    implementation (`__x`, `x__y`, `_X`)."""
    return _NAME.fullmatch(text) is not None and not _is_reserved(text)


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or "__" in name or (name[0] == "_" and name[1:2].isupper())


def cpp_identifier(text: str) -> str:
    """`text` as an identifier for which `is_cpp_name` holds; different texts may give the same one (`cpp_names` tells them
    apart)."""
    return cpp_names()(text)


class _CppNamer(Namer):
    """Runs of `_` are shortened, and one in front is preceded by a letter: no number appended would make those free."""

    def __call__(self, wish: str) -> str:
        name = re.sub("__+", "_", ascii_identifier(wish)).rstrip("_") or "v"
        return super().__call__(f"v{name}" if name[0] == "_" else name)


def cpp_names(taken: Iterable[str] = ()) -> Namer:
    """Gives out identifiers, for the values, symbols and functions of a translation unit or a function; `taken` is what the
    emitter itself uses there."""
    return _CppNamer(_is_reserved, taken)


def _octal(c: str) -> str:
    # Of three digits at most, where a hexadecimal escape takes all that follow.
    return "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass"))


def _literal(text: str) -> str:
    quoted = "".join(_ESCAPES.get(c) or (c if c.isprintable() else _octal(c)) for c in text)
    return '"' + _TRIGRAPH.sub(r"\\?", quoted) + '"'


def cpp_string(text: str) -> str:
    """A string literal on one line that holds `text` in UTF-8; a lone surrogate as its three bytes. A NUL stands in the
    array, so its length has to be taken from there: `std::string_view(s, sizeof(s) - 1)`."""
    return _literal(text)


def cpp_message(text: str) -> str:
    """A string literal that is read by people and compilers only (`static_assert`, `#line`), where escapes of numbers are
    not allowed: characters that do not print are spelled out (`\\u2028`)."""
    return _literal(printable(text))


def _comment(text: str) -> str:
    """One line of what prints, without trigraphs and without a backslash at its end."""
    line = printable(_SPACE.sub(" ", text).strip(" "))
    while "??" in line:
        line = line.replace("??", "? ?")
    return f"{line}." if line.endswith("\\") else line


def cpp_line_comment(text: str) -> str:
    """What may stand after `//`: one line. Spaces and line breaks become a space, other characters that do not print their
    escapes; a full stop follows a backslash at the end, which would join the next line."""
    return _comment(text)


def cpp_block_comment(text: str) -> str:
    """What may stand between `/*` and `*/`: as in `cpp_line_comment`, with a space in every `*/` and `/*`."""
    line = _comment(text).replace("*/", "* /").replace("/*", "/ *")
    return f"{line} " if line.endswith(("*", "/")) else line
