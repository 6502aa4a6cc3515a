"""How the field of an op is written and read, by its role and its type."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from wrapper_ir.errors import BuildError
from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.ops import FieldSpec, Role, Shape
from wrapper_ir.quoting import quote, symbol_name, target_name, value_name
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.text.printer_types import TypePrinter, space_text
from wrapper_ir.types import Device, StorageType, Type
from wrapper_ir.values import Value

__all__ = ["STORAGE", "Form", "form_of", "item_of", "value_text"]

# Any: a form has the type of the fields that it serves; `form_of` picks it by that type.


@dataclass(frozen=True, slots=True)
class Form:
    """One field's text. `starts` says whether a token begins it, for fields that may be left out."""

    write: Callable[[Any, TypePrinter], str]
    read: Callable[[OpParser], Any]
    starts: Callable[[str], bool] = bool


def value_text(value: Value) -> str:
    """`%x`."""
    return f"%{value_name(value.name)}"


def _is_value(token: str) -> bool:
    return token[:1] == "%"


def _is_string(token: str) -> bool:
    return token[:1] == '"'


def _goes_on(token: str) -> bool:
    """Whether an op's line goes on here: neither its end nor its provenance mark follows."""
    return token != "\n" and token[:1] != "#"


def _list(item: Form) -> Form:
    """Items separated by commas, at least one."""

    def read(p: OpParser) -> tuple[Any, ...]:
        found = [item.read(p)]
        while p.accept(","):
            found.append(item.read(p))
        return tuple(found)

    return Form(lambda held, types: ", ".join([item.write(x, types) for x in held]), read, item.starts)


def _symbol(p: OpParser) -> str:
    start = p.at
    symbol = p.name("a symbol")
    if symbol not in p.symbols:
        p.fail("WIR551", f"symbol {symbol} is not declared", start, hint="declare it, or check its name")
    return symbol


def _read_path(p: OpParser) -> tuple[int | str, ...]:
    path: list[int | str] = []
    while p.accept("["):
        path.append(p.string() if _is_string(p.tokens[p.at]) else p.integer("an index or a key"))
        p.expect("]")
    return tuple(path)


def _write_path(path: tuple[int | str, ...], types: TypePrinter) -> str:
    return "".join(f"[{quote(key) if isinstance(key, str) else int(key)}]" for key in path)


def _write_storage(type: Type, types: TypePrinter) -> str:
    if not isinstance(type, StorageType):  # the verifier refuses it, with this line
        return f": {types.type(type)}"
    space = space_text(type.space)
    return f"{print_expr(type.nbytes)}{types.at(type.device)}{' ' if space else ''}{space}"


STORAGE = Form(_write_storage, lambda p: StorageType(p.expr(), p.device_suffix(), p.space()))
"""The type of a storage without its word: `256 @cuda:0 pinned`."""

_REFERENCE = Form(lambda name, types: f"@{value_name(name)}", OpParser.reference)
_BY_ROLE = {
    Role.USE: Form(lambda value, types: value_text(value), OpParser.value, _is_value),
    Role.ARG: Form(lambda arg, types: types.arg(arg), OpParser.arg, _goes_on),
    Role.EXPR: Form(lambda e, types: print_expr(e), OpParser.expr, _goes_on),
    Role.CALLEE: _REFERENCE,
    Role.KERNEL: Form(_REFERENCE.write, _REFERENCE.read, lambda token: token[:1] == "@"),
    Role.OPERATOR: Form(lambda name, types: target_name(name), OpParser.target),
    Role.SYMBOL: Form(lambda name, types: symbol_name(name), _symbol),
    Role.STREAM: Form(lambda stream, types: str(stream), OpParser.integer),
}
_BY_TYPE: dict[Any, Form] = {
    str: Form(lambda text, types: quote(text), OpParser.string, _is_string),
    int: Form(lambda number, types: str(number), OpParser.integer),
    Expr: _BY_ROLE[Role.EXPR],
    Device: Form(lambda device, types: types.at(device), OpParser.device_suffix),
    tuple[int | str, ...]: Form(_write_path, _read_path),
}


def _enum(cls: type[enum.Enum], default: object) -> Form:
    words = {str(member.value): member for member in cls}
    optional = {word for word, member in words.items() if member is not default}
    what = f"{cls.__name__.removesuffix('Mode').lower()} mode"
    return Form(
        lambda member, types: str(member.value), lambda p: p.choice(words, what), optional.__contains__
    )


def _flag(name: str) -> Form:
    """A flag is its own name where it is set."""

    def read(p: OpParser) -> bool:
        p.expect(name)
        return True

    return Form(lambda _, types: name, read, name.__eq__)


def item_of(field: FieldSpec) -> Form:
    """The form of one item of a field that holds several."""
    found = _BY_ROLE.get(field.role)
    return found or _BY_TYPE.get(field.hint) or _refuse(field)


def form_of(field: FieldSpec) -> Form:
    """The form of a field; BuildError WIR307 for a type that has none."""
    found = _BY_ROLE.get(field.role) or _BY_TYPE.get(field.hint)
    if found is not None:
        return _list(found) if field.shape is Shape.MANY and field.role is not Role.DATA else found
    if field.hint is bool:
        return _flag(field.name)
    if isinstance(field.hint, type) and issubclass(field.hint, enum.Enum):
        return _enum(field.hint, field.default)
    return _refuse(field)


def _refuse(field: FieldSpec) -> NoReturn:
    raise BuildError("WIR307", f"field {field.name!r} of type {field.hint} has no text form")
