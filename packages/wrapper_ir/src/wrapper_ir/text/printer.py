"""Printer of programs, functions and single ops. The output depends on the program alone."""

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
"""Numbers of provenances, in the order of first use."""


def print_program(program: ir.Program) -> str:
    """Returns the program as text that ends in a newline; `parse_program` reads it back."""
    types = type_printer(program)
    marks: _Marks = {}
    sections: list[Iterable[str]] = [[f"wir {TEXT.version}", _text(program.target, types)]]
    for declarations in (program.symbols, program.constants, program.externs):
        sections.append([_text(declaration, types) for declaration in declarations])
    sections += [[_text(kernel, types)] for kernel in program.kernels]
    sections += [_function_lines(f, types, marks) for f in program.functions]
    if marks:
        sections.append(["provenance", *(f"  #{n}{_text(prov, types)}" for prov, n in marks.items())])
    texts = ("\n".join(lines) for lines in sections)
    return "\n\n".join(text for text in texts if text) + "\n"


def print_function(function: ir.Function, program: ir.Program) -> str:
    """Returns one function as text, without provenance; `program` has the target."""
    return "\n".join(_function_lines(function, type_printer(program), None))


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line of a function's text, and the range `first` to `stop` (exclusive) of its ops.

    The range is empty for a line of the header, and for the closing brace.
    """

    text: str
    first: int
    stop: int


def print_lines(function: ir.Function, program: ir.Program) -> tuple[PrintedLine, ...]:
    """Returns the lines of `print_function`, each with the range of its ops."""
    types, body = type_printer(program), function.body
    return (
        *(PrintedLine(text, 0, 0) for text in _header(function, types).split("\n")),
        *(PrintedLine(f"  {text}", first, stop) for first, stop, text in _op_lines(body, types)),
        PrintedLine("}", len(body), len(body)),
    )


def print_op(op: ir.Op, program: ir.Program | None = None) -> str:
    """Returns one op as a line, without provenance; the device of `program`'s target is omitted."""
    return op_text(op, type_printer(program))


def print_excerpt(
    function: ir.Function, op_index: int, program: ir.Program | None = None, *, around: int = 2
) -> str:
    """Returns the op at `op_index` with a line of carets under it, and `around` neighbors on each side."""
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
    """Returns the printer of types and arguments, which omits the device of `program`'s target."""
    return TypePrinter((ir.Target() if program is None else program.target).device, _TYPE_WRITERS)


_TYPE_WRITERS = {cls: syntax_of(cls).write for cls in get_args(ir.Type) if cls is not ir.TensorType}


def _text(x: object, types: TypePrinter) -> str:
    return syntax_of(type(x)).write(x, types)


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
    """Yields each line without its mark, after the range of its ops (start, stop)."""
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
