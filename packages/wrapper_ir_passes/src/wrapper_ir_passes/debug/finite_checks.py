"""Checks every floating-point tensor that a kernel reads for NaN and infinity."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, TypeGuard

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS, Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import replayed_functions
from wrapper_ir.plugins.passes import Pass


@dataclasses.dataclass(frozen=True)
class InsertFiniteChecks(Pass):
    """Puts `assert_finite` before each launch, for each floating-point tensor that it reads.

    A tensor is checked again only after a write to its storage. With `outputs`, tensors that a launch wrote
    are checked right after it. Functions that a device may capture are unchanged.
    """

    name: ClassVar[str] = "insert-finite-checks"
    outputs: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with checks; they change no lifetime."""
        graphed = analyses.get(replayed_functions)
        return analyses.program.with_functions(
            f if f.name in graphed else self._insert(f, analyses) for f in analyses.program.functions
        )

    def _insert(self, function: ir.Function, analyses: Analyses) -> ir.Function:
        aliasing = analyses.aliasing(function)
        checked = _Checked(aliasing)
        body: list[ir.Op] = []
        for position, op in enumerate(function.body):
            match op:
                case ir.Launch() if (kernel := analyses.kernels.get(op.kernel)) is not None:
                    pairs = [(p, a) for p, a in zip(kernel.params, op.args) if _is_floating(a)]
                    body += [_check(op, p, v) for p, v in pairs if p.access.reads and checked.first(v)]
                    body.append(op)
                    checked.wrote(position)
                    if self.outputs:
                        body += [_check(op, p, v) for p, v in pairs if p.access.writes and checked.first(v)]
                case _:
                    body.append(op)
                    checked.wrote(position)
        return function.with_body(body)


class _Checked:
    """The contents that have been checked: a value, and the number of writes to each of its storages."""

    def __init__(self, aliasing: Aliasing) -> None:
        self._aliasing = aliasing
        self._versions: dict[ir.Value, int] = {}
        self._done: set[tuple[ir.Value, tuple[int, ...]]] = set()

    def wrote(self, position: int) -> None:
        for value in self._aliasing.effects[position].writes:
            for root in self._aliasing.roots.get(value, NO_ROOTS):
                self._versions[root] = self._versions.get(root, 0) + 1

    def first(self, value: ir.Value) -> bool:
        """Marks this content as checked, and returns whether it was not before."""
        roots = self._aliasing.roots.get(value, NO_ROOTS)
        key = (value, tuple(self._versions.get(r, 0) for r in roots))
        if key in self._done:
            return False
        self._done.add(key)
        return True


def _is_floating(arg: ir.Arg) -> TypeGuard[ir.Value[ir.TensorType]]:
    return ir.is_tensor(arg) and arg.type.dtype.is_floating


def _check(op: ir.Launch, param: ir.KernelParam, value: ir.Value[ir.TensorType]) -> ir.AssertFinite:
    return ir.AssertFinite(tensor=value, message=f"{param.name} of @{op.kernel}", prov=op.prov)
