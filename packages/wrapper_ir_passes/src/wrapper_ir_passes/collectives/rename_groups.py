"""Gives the process groups of a program other names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses

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
        type = value.type
        if not isinstance(type, ir.StorageType) or not type.is_group_memory:
            return value
        space = dataclasses.replace(type.space, group=names.get(type.space.group, type.space.group))
        return ir.Value(value.name, dataclasses.replace(type, space=space))

    return ir.map_function(function.with_body(_renamed(op, analyses, names) for op in function.body), new)


def _renamed(op: ir.Op, analyses: Analyses, names: Mapping[str, str]) -> ir.Op:
    if not isinstance(op, ir.OperatorCall):
        return op
    info = analyses.extern_info.get(op.target)
    if info is None or not (
        isinstance(op, ir.CollectiveStart) or ir.ExternTag.COLLECTIVE in info.extern.tags
    ):
        return op

    def new(name: str, arg: ir.Arg) -> ir.Arg:
        return names.get(arg, arg) if name == _ARGUMENT and isinstance(arg, str) else arg

    arguments = [a.name for a in info.schema.args]
    args = tuple(new(name, arg) for name, arg in zip(arguments, op.args))
    kwargs = tuple((name, new(name, arg)) for name, arg in op.kwargs)
    if isinstance(op, ir.CollectiveStart):
        return dataclasses.replace(op, args=args, kwargs=kwargs, group=names.get(op.group, op.group))
    return dataclasses.replace(op, args=args, kwargs=kwargs)
