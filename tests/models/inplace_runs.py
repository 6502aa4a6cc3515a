"""Runs a program's kernels with the in-place pairs that they claim really being the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

import wrapper_ir
from tests.common.compare import clone_tree
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import call


def claimed_pairs(kernel: ir.KernelDef) -> list[tuple[int, int]]:
    """Returns positions of a read parameter, and of a written one, which may be the same bytes.

    Pairs to which this program passes parts of one storage are skipped: they come from the kernel itself.
    """
    position = {p.name: i for i, p in enumerate(kernel.params)}
    return [
        (i, position[name])
        for i, p in enumerate(kernel.params)
        if p.access is ir.Access.READ and not p.may_overlap
        for name in p.may_alias
        if kernel.params[position[name]].access is ir.Access.WRITE
    ]


def in_place(program: ir.Program, turn: int) -> tuple[ir.Program, int]:
    """Returns the program with the `turn`th declared pair of each launch in a separate shared storage, and
    the number of changed launches.

    The read argument is copied there before the launch, the written one is copied back after it.
    """
    body: list[ir.Op] = []
    changed = 0
    for position, op in enumerate(program.main.body):
        pairs = _usable(program, op) if isinstance(op, ir.Launch) else []
        if isinstance(op, ir.Launch) and turn < len(pairs):
            changed += 1
            body += _shared(op, *pairs[turn], f"pair{position}")
        else:
            body.append(op)
    main = replace(program.main, body=tuple(body))
    functions = tuple(main if f.name == main.name else f for f in program.functions)
    return replace(program, functions=functions), changed


def _usable(program: ir.Program, op: ir.Launch) -> list[tuple[int, int]]:
    """Claimed pairs that this launch does not use already."""
    return [(i, j) for i, j in claimed_pairs(program.kernel(op.kernel)) if op.args[i] != op.args[j]]


def _shared(op: ir.Launch, read: int, written: int, name: str) -> Iterator[ir.Op]:
    source, target = ir.as_tensor(op.args[read]), ir.as_tensor(op.args[written])
    room = ir.extent_bytes(source.type) + ir.extent_bytes(target.type)
    storage = ir.Value(f"{name}.s", ir.StorageType(room, source.type.device))
    mine, its = ir.Value(f"{name}.r", source.type), ir.Value(f"{name}.w", target.type)
    args = list(op.args)
    args[read], args[written] = mine, its
    yield ir.AllocStorage(result=storage)
    yield ir.View(source=storage, result=mine, mode=ir.ViewMode.ALIAS)
    yield ir.View(source=storage, result=its, mode=ir.ViewMode.ALIAS)
    yield ir.Copy(dst=mine, src=source)
    yield replace(op, args=tuple(args))
    yield ir.Copy(dst=target, src=its)
    yield ir.Free(storage=storage)


def results(artifact: Artifact, args: Any, kwargs: Any = None) -> Any:  # Any: a model's arguments and results
    """Returns the interpreter's results, and the arguments afterwards."""
    own = clone_tree((args, kwargs or {}))
    with torch.no_grad():
        torch.manual_seed(0)
        return call(artifact, machine("torch"), own[0], own[1]), own


def same_in_place(artifact: Artifact, args: Any, kwargs: Any = None) -> int:
    """Compares all results with those of each claimed pair in place, exactly.

    The number of launches that were.
    """
    want = results(artifact, args, kwargs)
    total, turn = 0, 0
    while True:
        program, changed = in_place(artifact.program, turn)
        if not changed:
            return total
        wrapper_ir.verify(program)
        got = results(replace(artifact, program=program), args, kwargs)
        for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        total, turn = total + changed, turn + 1
