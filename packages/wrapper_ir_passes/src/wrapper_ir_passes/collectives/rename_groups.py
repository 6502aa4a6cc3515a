"""Gives the process groups of a program other names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops import Arg, CallExtern, CollectiveStart, Op
from wrapper_ir.ir.program import Function, Program
from wrapper_ir.ir.schemas import ExternTag
from wrapper_ir.ir.structure import map_function
from wrapper_ir.ir.types import StorageType
from wrapper_ir.ir.values import Value

_ARGUMENT = "group_name"


def rename_groups(program: Program, names: Mapping[str, str], analyses: Analyses | None = None) -> Program:
    """The program with every collective, and all symmetric memory, of a group in `names` in the group that has the new
    name: for a process that registers its groups otherwise than the one that captured. All at once, so that names can
    be exchanged.

    Not a pass of pipelines, which keep what a program does.
    """
    analyses = Analyses.of(program, analyses)
    return program.with_functions(_function(f, analyses, names) for f in program.functions)


def _function(function: Function, analyses: Analyses, names: Mapping[str, str]) -> Function:
    def new(value: Value) -> Value:
        type = value.type
        if not isinstance(type, StorageType) or not type.is_group_memory:
            return value
        space = dataclasses.replace(type.space, group=names.get(type.space.group, type.space.group))
        return Value(value.name, dataclasses.replace(type, space=space))

    return map_function(function.with_body(_renamed(op, analyses, names) for op in function.body), new)


def _renamed(op: Op, analyses: Analyses, names: Mapping[str, str]) -> Op:
    if not isinstance(op, CallExtern | CollectiveStart):
        return op
    info = analyses.extern_info.get(op.target)
    if info is None or not (isinstance(op, CollectiveStart) or ExternTag.COLLECTIVE in info.extern.tags):
        return op

    def new(name: str, arg: Arg) -> Arg:
        return names.get(arg, arg) if name == _ARGUMENT and isinstance(arg, str) else arg

    given = [a.name for a in info.schema.args]
    args = tuple(new(name, arg) for name, arg in zip(given, op.args))
    kwargs = tuple((name, new(name, arg)) for name, arg in op.kwargs)
    if isinstance(op, CollectiveStart):
        return dataclasses.replace(op, args=args, kwargs=kwargs, group=names.get(op.group, op.group))
    return dataclasses.replace(op, args=args, kwargs=kwargs)
