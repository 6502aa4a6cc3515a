"""Compares two programs by structure: what was added, removed or changed, op by op.

Names of values do not matter: values are renamed by position before the comparison, so that a program that differs
in names only has no difference.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping

from wrapper_ir.kernel_hash import content_hash
from wrapper_ir.kernels import KernelDef
from wrapper_ir.ops import UNKNOWN, Op
from wrapper_ir.program import Function, Program
from wrapper_ir.structure import map_values, results
from wrapper_ir.text import print_function, print_program
from wrapper_ir.values import Value

__all__ = ["changed_kernels", "declaration_lines", "diff_programs", "rename_by_position"]


def diff_programs(old: Program, new: Program, *, context: int = 3, names: bool = False) -> str:
    """A unified diff, empty where the programs are alike; provenance is left out.

    With `names=True`, values keep their names and a renamed value is a difference.
    """
    lines: list[str] = []
    lines += _section("declarations", declaration_lines(old), declaration_lines(new), context)
    for name, (a, b) in changed_kernels(old, new).items():
        lines += _section(f"kernel @{name}", a, b, context)
    before, after = _functions(old, names), _functions(new, names)
    for name in dict.fromkeys((*before, *after)):
        lines += _section(f"func @{name}", before.get(name, []), after.get(name, []), context)
    return "\n".join(lines)


def _section(title: str, old: list[str], new: list[str], context: int) -> list[str]:
    return list(difflib.unified_diff(old, new, f"old {title}", f"new {title}", lineterm="", n=context))


def declaration_lines(program: Program) -> list[str]:
    """Version, target, symbols, constants and operators as text."""
    externs = tuple(sorted(program.externs, key=lambda e: e.name))
    return print_program(dataclasses.replace(program, externs=externs, kernels=(), functions=())).splitlines()


def changed_kernels(old: Program, new: Program) -> dict[str, tuple[list[str], list[str]]]:
    """The definitions, as lines, of the kernels that differ in more than their names; no lines on the side that lacks one."""
    before: Mapping[str, KernelDef] = {k.name: k for k in old.kernels}
    after: Mapping[str, KernelDef] = {k.name: k for k in new.kernels}
    found = {}
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a is None or b is None or content_hash(a) != content_hash(b):
            found[name] = _kernel_lines(a, old), _kernel_lines(b, new)
    return found


def _kernel_lines(kernel: KernelDef | None, program: Program) -> list[str]:
    """The kernel's definition as text."""
    if kernel is None:
        return []
    alone = Program(target=program.target, kernels=(kernel,), functions=())
    return print_program(alone).splitlines()[2:]


def _functions(program: Program, names: bool) -> dict[str, list[str]]:
    return {
        f.name: print_function(f if names else rename_by_position(f, program), program).splitlines()
        for f in program.functions
    }


def rename_by_position(function: Function, program: Program) -> Function:
    """The function with values named by position, and without provenance."""
    table: dict[Value, Value] = {c.value: c.value for c in program.constants}

    def define(value: Value) -> Value:
        return table.setdefault(value, Value(f"v{len(table)}", value.type))

    def use(value: Value) -> Value:
        return table.get(value, value)

    params = tuple(dataclasses.replace(p, value=define(p.value)) for p in function.params)
    body: list[Op] = []
    for op in function.body:
        for value in results(op):
            define(value)
        body.append(dataclasses.replace(map_values(op, use, use), prov=UNKNOWN))
    return dataclasses.replace(function, params=params, body=tuple(body))
