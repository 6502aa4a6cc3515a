"""Prints plans as text for readers and tests; nothing parses it.

A step's `syntax` determines its text. `{field}` is the field's value in the program's text form;
`{result:type}` is the type of a value, `{symbol:bare}` a text without quotes, `{flag:word}` that word.
`<...>` is left out if all its fields are empty.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import NumberInput, StorageInput, TensorInput
from wrapper_ir.expr import Expr, Int
from wrapper_ir.support.quoting import quote, value_name
from wrapper_ir.text.printer import type_printer
from wrapper_ir.text.printer_types import TypePrinter, device_text
from wrapper_ir_lowering.plan import ConstantWindow, Plan
from wrapper_ir_lowering.steps import Argument, FunctionPlan, Given, SlotPlace, StepBase, Stream

_PIECE = re.compile(r"<(?P<group>[^<>]*)>|\{(?P<name>\w+)(?::(?P<form>\w+))?\}|(?P<text>[^<>{}]+)")
_EMPTY: tuple[object, ...] = (None, False, (), "", 0, Int(0))
"""Values of a group that may be left out."""


def print_plan(plan: Plan) -> str:
    """Returns the plan as text, ending in a newline.

    Memory of load time comes first, then the steps of each function.
    """
    types = type_printer(plan.program)
    parts = ["\n".join(_head(plan, types)), *("\n".join(_function(f, types)) for f in plan.functions)]
    return "\n\n".join(part for part in parts if part) + "\n"


def print_step(step: StepBase, program: ir.Program | None = None) -> str:
    """One step as a line; `program` gives the target, whose device is left out."""
    return _step(step, type_printer(program))


def _head(plan: Plan, types: TypePrinter) -> Iterator[str]:
    for shared in plan.bytes:
        yield f"load_bytes {quote(shared.name)} {shared.nbytes}"
    for constant in plan.program.constants:
        where = f" in {quote(constant.storage)} + {constant.offset}" if constant.storage else ""
        yield f"load {_value(constant.value)} : {types.type(constant.value.type)}{where}"
    for number, window in enumerate(plan.windows):
        yield f"window #{number} = {_window(window, types)}"
    for stream in plan.streams:
        yield f"make_stream {_form(stream, types)}"


def _window(window: ConstantWindow, types: TypePrinter) -> str:
    source = _value(window.source) if isinstance(window.source, ir.Value) else f"#{window.source}"
    unit = " bytes" if window.in_bytes else ""
    return f"{source} + {window.offset}{unit} : {types.type(window.result.type)}"


def _function(function: FunctionPlan, types: TypePrinter) -> Iterator[str]:
    params = ", ".join(f"{_value(p.value)}: {types.type(p.value.type)}" for p in function.function.params)
    captures = "".join(f", {symbol}" for symbol in function.function.captures)
    yield f"function @{value_name(function.name)}({params}{captures}) {{"
    for value, number in function.windows.items():
        yield f"  {_value(value)} is window #{number}"
    for number, block in enumerate(function.persistent.blocks):
        verb = "keep" if function.persistent.is_held else "keep tensors over"
        yield f"  {verb} block {number}: {block.nbytes}{' zero' if block.zero else ''}"
    for value, number in function.persistent.values.items():
        window = function.persistent.windows[number]
        yield (
            f"  {_value(value)} is in persistent block {window.block} + {window.offset} : "
            f"{types.type(window.type)}"
        )
    for step in function.steps:
        yield f"  {_step(step, types)}"
    yield "}"


# --- one step


def _step(step: StepBase, types: TypePrinter) -> str:
    return "".join(piece(step, types) for piece in _compiled(type(step).syntax)).strip()


Piece = Callable[[StepBase, TypePrinter], str]


@cache
def _compiled(syntax: str) -> tuple[Piece, ...]:
    return tuple(_piece(match) for match in _PIECE.finditer(syntax))


def _piece(match: re.Match[str]) -> Piece:
    if match["text"] is not None:
        text: str = match["text"]
        return lambda step, types: text
    if match["name"] is not None:
        return _field(match["name"], match["form"] or "")
    pieces = _compiled(match["group"])
    names = re.findall(r"\{(\w+)", match["group"])

    def group(step: StepBase, types: TypePrinter) -> str:
        if all(_is_empty(getattr(step, name)) for name in names):  # the step's own fields
            return ""
        return "".join(piece(step, types) for piece in pieces)

    return group


def _field(name: str, form: str) -> Piece:
    def field(step: StepBase, types: TypePrinter) -> str:
        content = getattr(step, name)  # one of the step's own fields
        match content, form:
            case bool(), _:
                return form or name
            case str(), "bare":
                return content
            case tuple(), "path":
                return "".join(f"[{_form(item, types)}]" for item in content)
            case ir.Value(), "type":
                return types.type(content.type)
            case tuple(), "type":
                return ", ".join(types.type(value.type) for value in content)
            case _:
                return _form(content, types)

    return field


def _is_empty(value: object) -> bool:
    return value in _EMPTY


def _value(value: ir.Value) -> str:
    return f"%{value_name(value.name)}"


def _form(value: Any, types: TypePrinter) -> str:  # Any: what the fields of steps hold
    write = _FORMS.get(type(value))
    if write is not None:
        return write(value, types)
    match value:
        case enum.Enum():
            return str(value.value)
        case Expr() | ir.Complex():
            return types.arg(value)
        case int():
            return str(value)
        case _:
            name = value.name  # a kernel, of whatever kind
            return f"@{value_name(name)}"


def _argument(argument: Argument, types: TypePrinter) -> str:
    mark = "" if argument.given is not Given.DEFAULT else " default"
    return f"{argument.schema.name}={_item(argument.value, types)}{mark}"


def _slot_place(place: SlotPlace, types: TypePrinter) -> str:
    return f"{_value(place.base)} + {_form(place.start, types)} : {_form(place.nbytes, types)}"


def _items(items: tuple[Any, ...], types: TypePrinter) -> str:
    return ", ".join(_item(item, types) for item in items)


def _item(item: Any, types: TypePrinter) -> str:
    match item:
        case (ir.KernelParam() as param, arg):
            return f"{param.name}={_item(arg, types)}"
        case (ir.Value() as value, TensorInput() | NumberInput() | StorageInput() as wanted):
            return f"{_value(value)} {quote(wanted.name)}"
        case tuple():
            return f"[{_items(item, types)}]"
        case _:
            return _form(item, types)


_FORMS: Mapping[type, Callable[[Any, TypePrinter], str]] = {  # Any: the class beside it
    ir.Value: lambda value, types: _value(value),
    ir.TensorType: lambda type, types: types.type(type),
    ir.StorageType: lambda type, types: types.type(type),
    ir.Device: lambda device, types: f"@{device_text(device)}",
    Stream: lambda stream, types: f"stream({stream.number}) @{device_text(stream.device)}",
    SlotPlace: _slot_place,
    ir.ExternInfo: lambda info, types: info.extern.name,
    FunctionPlan: lambda plan, types: f"@{value_name(plan.name)}",
    Argument: _argument,
    tuple: _items,
    str: lambda text, types: quote(text),
    type(None): lambda none, types: "none",
}
