"""Checked access to parsed JSON; every fault has its path in the document."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Collection, Mapping
from typing import NoReturn, ParamSpec, TypeVar

from wrapper_ir.errors import ParseError
from wrapper_ir.support.json_value import Json

T = TypeVar("T")
P = ParamSpec("P")
E = TypeVar("E", bound=enum.Enum)

MAX_DEPTH = 200
"""The maximum nesting of expressions, argument lists and structures."""


class Fault(Exception):
    """A fault in a document. Callers append their step of the path. It never leaves `wrapper_ir.json`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path: list[str | int] = []

    def error(self) -> ParseError:
        """Returns the public error, with the path from the document's root."""
        steps = (f".{p}" if type(p) is str else f"[{p}]" for p in reversed(self.path))
        return ParseError(self.code, f"at ${''.join(steps)}: {self.message}")


def fault(message: str, code: str = "WIR521") -> NoReturn:
    """Raises a Fault; by default, the document has the wrong structure."""
    raise Fault(code, message)


def load(text: str, read: Callable[[dict[str, Json]], T]) -> T:
    """Calls `read` with the object in `text`. Raises ParseError WIR520 for no JSON, and its faults."""
    try:
        document: Json = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        return read(obj(document))
    except Fault as error:
        raise error.error() from None
    except json.JSONDecodeError as error:
        message = f"this is not JSON: {error.msg}"
        raise ParseError("WIR520", message, line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise ParseError("WIR553", "the document nests too deeply") from error
    except ValueError as error:  # a number with too many digits
        raise ParseError("WIR520", f"this is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        keys = [key for key, _ in pairs]
        fault(f"key {next(k for k in keys if keys.count(k) > 1)!r} appears twice", "WIR520")
    return fields


def _refuse(word: str) -> NoReturn:
    fault(f"{word} is not a JSON number", "WIR520")


def dump(document: Json) -> str:
    """Returns canonical JSON: sorted keys, no blanks, no escapes of non-ASCII characters.

    Raises ParseError WIR523 if a string contains two lone surrogates that JSON would join into one character.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)
        if json.loads(escaped) != document:
            raise ParseError("WIR523", "a string contains surrogates that JSON cannot keep apart") from None
        return escaped
    return text


def _reader(cls: type[T], what: str) -> Callable[[Json], T]:
    """Returns a reader of JSON of exactly this class: true is not 1."""
    return lambda x: x if type(x) is cls else fault(f"expected {what}, found {_shown(x)}")


obj: Callable[[Json], dict[str, Json]] = _reader(dict, "an object")
array: Callable[[Json], list[Json]] = _reader(list, "a list")
string: Callable[[Json], str] = _reader(str, "a string")
integer: Callable[[Json], int] = _reader(int, "an integer")
truth: Callable[[Json], bool] = _reader(bool, "true or false")


def within(step: str | int, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `read` and appends `step` to the path of its faults."""
    try:
        return read(*args, **kwargs)
    except Fault as error:
        error.path.append(step)
        raise


def each(x: Json, read: Callable[[Json], T]) -> tuple[T, ...]:
    """Reads every item of a list."""
    return tuple([within(number, read, item) for number, item in enumerate(array(x))])


def field(x: Mapping[str, Json], name: str, read: Callable[[Json], T]) -> T:
    """Reads a required field."""
    if name not in x:
        fault(f"field {name!r} is missing")
    try:  # inlined `within`, because each result has two fields
        return read(x[name])
    except Fault as error:
        error.path.append(name)
        raise


def only(x: Mapping[str, Json], names: Collection[str]) -> None:
    """Refuses fields of other names."""
    for name in x:
        if name not in names:
            fault(f"unknown field {name!r}")


def members_of(cls: type[E]) -> dict[str, E]:
    """Returns an enumeration's members by their value."""
    return {str(m.value): m for m in cls}


def member(table: Mapping[str, T], what: str) -> Callable[[Json], T]:
    """Returns a reader of one of the words in `table`; another word is WIR522."""

    def read(x: Json) -> T:
        entry = table.get(string(x))
        return entry if entry is not None else fault(f"unknown {what} {_shown(x)}", "WIR522")

    return read


def _shown(x: Json) -> str:
    if type(x) is dict or type(x) is list:
        return "an object" if type(x) is dict else "a list"
    text = json.dumps(x)
    return text if len(text) <= 60 else f"{text[:60]}..."
