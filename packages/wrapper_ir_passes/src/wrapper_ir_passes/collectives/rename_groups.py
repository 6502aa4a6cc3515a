"""Gives the process groups of a program other names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

CallT = TypeVar("CallT", ir.CallExtern, ir.CollectiveStart)
_ARGUMENT = "group_name"


def rename_groups(
    program: ir.Program, names: Mapping[str, str], analyses: Analyses | None = None
) -> ir.Program:
    """Returns the program with process groups renamed, in collectives and symmetric memory.

    `names` maps old names to new ones, all at once, so that names can be exchanged. It serves processes that
    register their groups under other names than at capture.

    Not a pass of pipelines, which keep the behaviour of a program.
    """
    analyses = Analyses.of(program, analyses)
    return program.with_functions(_function(f, analyses, names) for f in program.functions)


def _function(function: ir.Function, analyses: Analyses, names: Mapping[str, str]) -> ir.Function:
    def new(value: ir.Value) -> ir.Value:
        if not ir.is_storage(value) or not value.type.is_group_memory:
            return value
        space = value.type.space
        space = dataclasses.replace(space, group=names.get(space.group, space.group))
        return ir.Value(value.name, dataclasses.replace(value.type, space=space))

    return ir.map_function(function.with_body(_renamed(op, analyses, names) for op in function.body), new)


def _renamed(op: ir.Op, analyses: Analyses, names: Mapping[str, str]) -> ir.Op:
    info = analyses.extern_info.get(ir.callee_name(op))
    if info is None or ir.EffectClass.COLLECTIVE not in op.effects(analyses).classes:
        return op

    def new(name: str, arg: ir.Arg) -> ir.Arg:
        return names.get(arg, arg) if name == _ARGUMENT and isinstance(arg, str) else arg

    arguments = [a.name for a in info.schema.args]

    def renamed(call: CallT) -> CallT:
        args = tuple(new(name, arg) for name, arg in zip(arguments, call.args))
        kwargs = tuple((name, new(name, arg)) for name, arg in call.kwargs)
        return dataclasses.replace(call, args=args, kwargs=kwargs)

    match op:
        case ir.CollectiveStart(group=group):
            return dataclasses.replace(renamed(op), group=names.get(group, group))
        case ir.CallExtern():
            return renamed(op)
        case _:
            return op
