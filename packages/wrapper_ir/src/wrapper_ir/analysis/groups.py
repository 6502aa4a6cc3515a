"""Finds the process groups that a program communicates in."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.symmetric import named_arguments_as_given
from wrapper_ir.operators.symmetric import uses_workspace

_ARGUMENT = "group_name"


def groups_of(program: ir.Program, analyses: Analyses | None = None) -> tuple[str, ...]:
    """Names of the groups of all collectives and of all group memory, in order of first use.

    The group of a `CollectiveStart` is a field; calls that communicate before they return have an argument
    `group_name`.
    """
    analyses = Analyses.of(program, analyses)
    names = (_group(op, analyses) for op in program.ops)
    return tuple(dict.fromkeys(name for name in names if name))


def sharing_groups(program: ir.Program, analyses: Analyses | None = None) -> tuple[str, ...]:
    """Names of the groups in whose symmetric or registered memory a program allocates, or whose workspace its
    operators use, in order of first use."""
    analyses = Analyses.of(program, analyses)
    names = (_group(f.body[at], analyses) for f, at in sharing_ops(program, analyses))
    return tuple(dict.fromkeys(names))


def sharing_ops(program: ir.Program, analyses: Analyses) -> Iterator[tuple[ir.Function, int]]:
    """The ops that contribute to `sharing_groups`: functions, and positions in them."""
    for function in program.functions:
        for position, op in enumerate(function.body):
            if _shares(op, analyses) and _group(op, analyses):
                yield function, position


def _shares(op: ir.Op, analyses: Analyses) -> bool:
    match op:
        case ir.CallExtern() | ir.CollectiveStart():
            info = analyses.extern_info.get(op.target)
            return info is not None and uses_workspace(info.schema)
        case ir.AllocStorage():
            return True
        case _:
            return False


def _group(op: ir.Op, analyses: Analyses) -> str:
    match op:
        case ir.CollectiveStart():
            return op.group
        case ir.AllocStorage():
            type = op.result.type
            return type.space.group if type.is_group_memory else ""
        case ir.CallExtern():
            return _argument(op, analyses)
        case _:
            return ""


def _argument(op: ir.CallExtern, analyses: Analyses) -> str:
    info = analyses.extern_info.get(op.target)
    if info is None or ir.ExternTag.COLLECTIVE not in info.extern.tags:
        return ""
    name = dict(named_arguments_as_given(op, info)).get(_ARGUMENT)
    return name if isinstance(name, str) else ""
