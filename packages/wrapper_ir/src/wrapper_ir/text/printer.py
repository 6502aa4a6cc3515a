"""Programs, functions and single ops as text. Output depends on the program alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from wrapper_ir import ir
from wrapper_ir.support.quoting import value_name
from wrapper_ir.support.versions import TEXT
from wrapper_ir.text.ops import alloc_text, line_writer, op_text
from wrapper_ir.text.printer_types import TypePrinter
from wrapper_ir.text.syntax import compile_syntax, syntax_of

_WIDTH = 110
_Marks = dict[ir.Provenance, int]
"""Provenances, numbered by first use."""


def print_program(program: ir.Program) -> str:
    """The program as text, ending in a newline; `parse_program` reads it back."""
    types = type_printer(program)
    marks: _Marks = {}
    sections: list[Iterable[str]] = [[f"wir {TEXT.version}", _text(program.target, types)]]
    for records in (program.symbols, program.constants, program.externs):
        sections.append([_text(record, types) for record in records])
    sections += [[_text(kernel, types)] for kernel in program.kernels]
    sections += [_function_lines(f, types, marks) for f in program.functions]
    if marks:
        sections.append(["provenance", *(f"  #{n}{_text(prov, types)}" for prov, n in marks.items())])
    texts = ("\n".join(lines) for lines in sections)
    return "\n\n".join(text for text in texts if text) + "\n"


def print_function(function: ir.Function, program: ir.Program) -> str:
    """One function as text, without provenance; `program` gives the target."""
    return "\n".join(_function_lines(function, type_printer(program), None))


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line of a function's text, and the ops that it stands for: those from `first` up to before `stop`, none for a line of
    the header or the brace that closes the function."""

    text: str
    first: int
    stop: int


def print_lines(function: ir.Function, program: ir.Program) -> tuple[PrintedLine, ...]:
    """The lines of `print_function`, each with its ops."""
    types, body = type_printer(program), function.body
    return (
        *(PrintedLine(text, 0, 0) for text in _header(function, types).split("\n")),
        *(PrintedLine(f"  {text}", first, stop) for first, stop, text in _op_lines(body, types)),
        PrintedLine("}", len(body), len(body)),
    )


def print_op(op: ir.Op, program: ir.Program | None = None) -> str:
    """One op as a line, without provenance; `program` gives the target, whose device is left out."""
    return op_text(op, type_printer(program))


def print_excerpt(
    function: ir.Function, op_index: int, program: ir.Program | None = None, *, around: int = 2
) -> str:
    """The op at `op_index` with its neighbours, `around` on each side, and a line of carets under it."""
    types = type_printer(program)
    first = max(0, op_index - around)
    lines = [f"func @{value_name(function.name)}:"] + (["  ..."] if first else [])
    for position in range(first, min(len(function.body), op_index + around + 1)):
        line = op_text(function.body[position], types)
        lines.append(f"  {line}")
        if position == op_index:
            lines.append(f"  {'^' * min(len(line), _WIDTH)}")
    return "\n".join([*lines, *(["  ..."] if op_index + around + 1 < len(function.body) else [])])


def type_printer(program: ir.Program | None) -> TypePrinter:
    """What prints types and arguments; `program` gives the target, whose device is left out."""
    return TypePrinter((ir.Target() if program is None else program.target).device, _TYPE_WRITERS)


_TYPE_WRITERS = {cls: syntax_of(cls).write for cls in get_args(ir.Type) if cls is not ir.TensorType}


def _text(record: object, types: TypePrinter) -> str:
    return syntax_of(type(record)).write(record, types)


def _function_lines(function: ir.Function, types: TypePrinter, marks: _Marks | None) -> list[str]:
    lines = [_header(function, types)]
    body = function.body
    for first, _, text in _op_lines(body, types):
        prov = body[first].prov
        if marks is not None and prov is not ir.UNKNOWN and prov != ir.UNKNOWN:
            text += f"  #{marks.setdefault(prov, len(marks) + 1)}"
        lines.append(f"  {text}")
    lines.append("}")
    return lines


def _op_lines(body: tuple[ir.Op, ...], types: TypePrinter) -> Iterator[tuple[int, int, str]]:
    """Each line without its mark, with the position of its first op and the one after its last."""
    position = 0
    while position < len(body):
        first, op, text = position, body[position], None
        if type(op) is ir.AllocStorage and position + 1 < len(body):
            text = alloc_text(op, body[position + 1], types)
        if text is None:
            text = line_writer(type(op))(op, types)
            position += 1
        else:
            position += 2
        yield first, position, text


def _header(function: ir.Function, types: TypePrinter) -> str:
    line = f"{_text(function, types)} {{"
    if len(line) <= _WIDTH:
        return line
    rows = "".join(f"    {_text(p, types)},\n" for p in function.params)
    return f"func @{value_name(function.name)}(\n{rows}){_AFTER_PARAMS.write(function, types)} {{"


_AFTER_PARAMS = compile_syntax(ir.Function, ir.Function.syntax.partition("({params})")[2])
