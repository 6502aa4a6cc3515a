"""Splits two programs into parts to compare: declarations, kernels that differ, and functions, as lines.

Values are renamed by position, so that programs that differ only in names are equal.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.support.quoting import value_name
from wrapper_ir.text import print_lines, print_program
from wrapper_ir.text.ops import op_text
from wrapper_ir.text.printer import type_printer

NAME = r'%(?:"(?:[^"\\]|\\.)*"|[\w.]+)'
VALUE = re.compile(NAME)
"""A value in the text form."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramPart:
    """A part of two programs as lines; a missing side is empty.

    `kind` is `declarations`, `kernel` or `func`. A function has the same number of lines as in `print_lines`.
    """

    kind: str
    name: str
    old: list[str]
    new: list[str]


def program_parts(old: ir.Program, new: ir.Program, *, names: bool = False) -> Iterator[ProgramPart]:
    """Yields the declarations and kernels that differ, and all functions."""
    before, after = _declaration_lines(old), _declaration_lines(new)
    if before != after:
        yield ProgramPart("declarations", "", before, after)
    for name, sides in _changed_kernels(old, new).items():
        yield ProgramPart("kernel", name, *sides)
    before_functions, right = ({f.name: f for f in program.functions} for program in (old, new))
    for name in dict.fromkeys((*before_functions, *right)):
        yield ProgramPart(
            "func", name, _lines(before_functions.get(name), old, names), _lines(right.get(name), new, names)
        )


def _lines(function: ir.Function | None, program: ir.Program, names: bool) -> list[str]:
    """The lines of a function, with values renamed by position unless `names`."""
    if function is None:
        return []
    lines = print_lines(function, program)
    if names:
        return [line.text for line in lines]
    renamed, types = _by_position(function, program), type_printer(program)
    params = {
        f"%{value_name(a.value.name)}": f"%{value_name(b.value.name)}"
        for a, b in zip(function.params, renamed.params, strict=True)
    }
    renamed_lines = []
    for line in lines:
        ops = [op_text(op, types) for op in renamed.body[line.first : line.stop]]
        renamed_lines.append(
            f"  {'; '.join(ops)}" if ops else VALUE.sub(lambda m: params.get(m[0], m[0]), line.text)
        )
    return renamed_lines


def _declaration_lines(program: ir.Program) -> list[str]:
    """Version, target, symbols, constants and operators as text."""
    externs = tuple(sorted(program.externs, key=lambda e: e.name))
    return print_program(dataclasses.replace(program, externs=externs, kernels=(), functions=())).splitlines()


def _changed_kernels(old: ir.Program, new: ir.Program) -> dict[str, tuple[list[str], list[str]]]:
    """The definitions of kernels that differ beyond their names, as lines; a missing side is empty."""
    before: Mapping[str, ir.KernelDef] = {k.name: k for k in old.kernels}
    after: Mapping[str, ir.KernelDef] = {k.name: k for k in new.kernels}
    result = {}
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None or content_hash(a) != content_hash(b):
            result[name] = _kernel_lines(a, old), _kernel_lines(b, new)
    return result


def _kernel_lines(kernel: ir.KernelDef | None, program: ir.Program) -> list[str]:
    """Prints the kernel's definition."""
    if kernel is None:
        return []
    alone = ir.Program(target=program.target, kernels=(kernel,), functions=())
    return print_program(alone).splitlines()[2:]


def _by_position(function: ir.Function, program: ir.Program) -> ir.Function:
    """Renames the function's values by position and removes provenance."""
    table: dict[ir.Value, ir.Value] = {c.value: c.value for c in program.constants}

    def define(value: ir.Value) -> ir.Value:
        return table.setdefault(value, ir.Value(f"v{len(table)}", value.type))

    def use(value: ir.Value) -> ir.Value:
        return table.get(value, value)

    params = tuple(dataclasses.replace(p, value=define(p.value)) for p in function.params)
    body: list[ir.Op] = []
    for op in function.body:
        for value in ir.results(op):
            define(value)
        body.append(dataclasses.replace(ir.map_values(op, use, use), prov=ir.UNKNOWN))
    return dataclasses.replace(function, params=params, body=tuple(body))
