"""Text forms of single items in fields: numbers, strings, names, enumerations, lists and source blocks."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Never, TypeAlias, TypeVar

from wrapper_ir import ir
from wrapper_ir.expr import Expr, print_expr
from wrapper_ir.support.quoting import quote, symbol_name, target_name, value_name
from wrapper_ir.support.tokens import BLOCK
from wrapper_ir.text.op_parser import OpParser
from wrapper_ir.text.printer_types import TypePrinter, device_text

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)
W = TypeVar("W", contravariant=True)
R = TypeVar("R", covariant=True)


@dataclass(frozen=True)
class Form(Generic[W, R]):
    """Writer and reader of one item. `starts` tells whether a token begins it, for optional fields."""

    write: Callable[[W, TypePrinter], str]
    read: Callable[[OpParser], R]
    starts: Callable[[str], bool] = bool


_Items: TypeAlias = Form[tuple[W, ...], tuple[R, ...]]
FieldForm: TypeAlias = Form[Never, object]
"""A form selected by a field's annotation; it accepts only the values of that field."""


def plain(
    write: Callable[[T], str], read: Callable[[OpParser], T], starts: Callable[[str], bool] = bool
) -> FieldForm:
    """Returns a form that does not depend on the target."""
    return Form(lambda item, types: write(item), read, starts)


def _is_string(token: str) -> bool:
    return token[:1] == '"'


def _continues(token: str) -> bool:
    """Returns whether an op's line continues: neither its end nor its provenance mark follows."""
    return token != "\n" and token[:1] != "#"


def choice_of(words: Mapping[str, T], what: str) -> Form[T, T]:
    """Returns the form of a choice among words; messages call one `what`."""
    # Members are singletons, and their ids hash faster.
    texts = {id(member): word for word, member in words.items()}
    return Form(lambda item, types: texts[id(item)], lambda p: p.choice(words, what), words.__contains__)


def enum_of(cls: type[E]) -> Form[E, E]:
    """Returns the form of an enumeration: the value of a member."""
    what = "element type" if cls is ir.DType else ir.tag_of(cls).replace("_", " ")
    return choice_of({str(member.value): member for member in cls}, what)


def items_of(item: Form[W, R], opening: str, closing: str, *, rows: bool = False) -> _Items[W, R]:
    """Returns the form of items between brackets, with `rows` one per line."""

    read_item = item.read

    def read(p: OpParser) -> tuple[R, ...]:
        p.expect(opening)
        return p.items(closing, read_item)

    def write(items: tuple[W, ...], types: TypePrinter) -> str:
        texts = [item.write(x, types) for x in items]
        inner = "".join([f"\n    {text}," for text in texts]) + "\n  " if rows else ", ".join(texts)
        return f"{opening}{inner}{closing}"

    return Form(write, read, opening.__eq__)


def lines_of(item: Form[W, R]) -> _Items[W, R]:
    """Returns the form of items on separate lines."""

    def read(p: OpParser) -> tuple[R, ...]:
        items: list[R] = []
        while p.begins_line(item.starts):
            items.append(item.read(p))
        return tuple(items)

    return Form(lambda items, types: "".join([f"\n  {item.write(x, types)}" for x in items]), read)


def list_of(item: Form[W, R]) -> _Items[W, R]:
    """Returns the form of one or more items, separated by commas."""
    return Form(
        lambda items, types: ", ".join([item.write(x, types) for x in items]),
        lambda p: tuple(p.several(item.read)),
        item.starts,
    )


def pair_of(item: Form[W, R]) -> Form[tuple[str, W], tuple[str, R]]:
    """Returns the form `name = item`."""

    def read(p: OpParser) -> tuple[str, R]:
        name = p.name("a name")
        p.expect("=")
        return name, item.read(p)

    return Form(lambda pair, types: f"{symbol_name(pair[0])} = {item.write(pair[1], types)}", read)


def or_none(item: Form[W, R]) -> Form[W | None, R | None]:
    """Returns the form of an item or `none`."""
    return Form(
        lambda value, types: "none" if value is None else item.write(value, types),
        lambda p: None if p.accept("none") else item.read(p),
    )


# --- paths of nested results


def _read_path(p: OpParser) -> tuple[int | str, ...]:
    path: list[int | str] = []
    while p.accept("["):
        path.append(p.string() if _is_string(p.tokens[p.at]) else p.integer("an index or a key"))
        p.expect("]")
    return tuple(path)


# --- constants of kernels


def _constant(constant: ir.ConstantValue) -> str:
    match constant:
        case None | bool():
            return str(constant).lower()
        case ir.DType():
            return f"dtype({constant.value})"
        case str():
            return quote(constant)
        case tuple():
            return f"({', '.join(map(_constant, constant))})"
        case int() | float():
            return repr(constant)


def _read_hint(p: OpParser) -> int | float | bool:
    start = p.at
    hint = p.number()
    if hint != hint:
        p.fail("WIR500", "expected a number that equals itself", start)
    return hint


def _read_constant(p: OpParser) -> ir.ConstantValue:
    return p.items(")", _read_scalar) if p.accept("(") else _read_scalar(p)


def _read_scalar(p: OpParser) -> ir.ScalarConstant:
    if p.accept("none"):
        return None
    if _is_string(p.tokens[p.at]):
        return p.string()
    if not p.accept("dtype"):
        return p.number()
    p.expect("(")
    dtype = _DTYPE.read(p)
    p.expect(")")
    return dtype


def _read_operator_constant(p: OpParser) -> ir.OperatorConstant:
    return p.items(")", OpParser.integer) if p.accept("(") else _read_scalar(p)


# --- parameters of kernels


def _read_kind(p: OpParser) -> ir.ParamKind:
    if p.accept("*"):
        return ir.ParamKind.POINTER
    if p.accept("["):
        p.expect("]")
        return ir.ParamKind.DESCRIPTOR
    return ir.ParamKind.SCALAR


_MARKS = {ir.ParamKind.POINTER: "*", ir.ParamKind.SCALAR: "", ir.ParamKind.DESCRIPTOR: "[]"}


# --- sources

# Characters that editors, text-mode files or encodings may change; a source with any of them is quoted.
_FRAGILE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029\ufeff\ud800-\udfff]")


def _block(source: str) -> str:
    """Writes `source` verbatim between lines of enough braces; fragile text is quoted."""
    if _FRAGILE.search(source):
        return quote(source)
    braces = 3
    lines = {line.rstrip(" \t") for line in source.split("\n") if line.startswith("}}}")}
    while "}" * braces in lines:
        braces += 1
    return f"{'{' * braces}\n{source}\n{'}' * braces}"


def _read_block(p: OpParser) -> str:
    token = p.tokens[p.at]
    if not token.startswith(BLOCK):
        return p.string("`{{{` and a source block")
    p.at += 1
    return token[len(BLOCK) :]


# --- the tables


def _value(value: ir.Value, types: TypePrinter) -> str:
    return f"%{value_name(value.name)}"


def _read_bound(p: OpParser) -> int | None:
    return None if p.accept("*") else p.integer("a bound or `*`")


_DTYPE = enum_of(ir.DType)
_REFERENCE = plain(lambda name: f"@{value_name(name)}", OpParser.reference, lambda t: t[:1] == "@")
_EXPR = plain(print_expr, OpParser.expr, _continues)

BY_NAME: Mapping[str, FieldForm] = {
    "name": plain(symbol_name, lambda p: p.name("a name")),
    "reference": _REFERENCE,
    "device": plain(device_text, lambda p: p.device_name(p.name("a device"))),
    "bound": plain(lambda bound: "*" if bound is None else str(bound), _read_bound),
    "block": plain(_block, _read_block),
}
"""Forms that a syntax requests by name: `{order:name}`."""

BY_ROLE: Mapping[ir.Role, FieldForm] = {
    ir.Role.DEF: Form(_value, OpParser.result_mark),
    ir.Role.USE: Form(_value, OpParser.value, lambda t: t[:1] == "%"),
    ir.Role.ARG: Form[ir.Arg, ir.Arg](lambda arg, types: types.arg(arg), OpParser.arg, _continues),
    ir.Role.EXPR: _EXPR,
    ir.Role.CALLEE: _REFERENCE,
    ir.Role.KERNEL: _REFERENCE,
    ir.Role.OPERATOR: plain(target_name, OpParser.target),
    ir.Role.SYMBOL: plain(symbol_name, OpParser.symbol),
    ir.Role.STREAM: plain(str, OpParser.integer),
}

BY_TYPE: Mapping[object, FieldForm] = {
    str: plain(quote, OpParser.string, _is_string),
    int: plain(str, OpParser.integer),
    int | float | bool | None: plain(_constant, _read_hint),
    Expr: _EXPR,
    ir.Type: Form[ir.Type, ir.Type](lambda type, types: types.type(type), OpParser.type),
    ir.Device: Form[ir.Device, ir.Device](lambda device, types: types.at(device), OpParser.device_suffix),
    tuple[int | str, ...]: plain(lambda path: "".join([f"[{_constant(key)}]" for key in path]), _read_path),
    ir.ConstantValue: plain(_constant, _read_constant),
    ir.OperatorConstant: plain(_constant, _read_operator_constant),
    ir.ParamKind: plain(_MARKS.__getitem__, _read_kind),
}
