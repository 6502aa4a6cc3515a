"""Explains why the result of a launch or an operator has its own memory instead of an argument's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr
from wrapper_ir_tools.explain.model import InPlace

_NAMING = (ir.AllocStorage, ir.Slot, ir.View, ir.Free, ir.Drop)
"""Ops that only name or end a tensor."""
_SHOWN = 3
_REASONS = 32
"""Reported arguments for one result: a launch of n inputs and n outputs has n^2 pairs."""


class _Argument(NamedTuple):
    """A tensor argument of a launch or call, with the parameter of the kernel or operator."""

    name: str
    value: ir.Value
    access: ir.Access
    may_alias: tuple[str, ...] = ()


def in_place_of_function(function: ir.Function, analyses: Analyses, first: int) -> Iterator[InPlace]:
    """Explains each tensor that an op of the function fills; `first` is the index of the function's first
    op."""
    yield from _InPlace(function, analyses, first).found()


class _InPlace:
    def __init__(self, function: ir.Function, analyses: Analyses, first: int) -> None:
        self.function, self.analyses, self.first = function, analyses, first
        aliasing = analyses.aliasing(function)
        self.roots: Mapping[ir.Value, tuple[ir.Value, ...]] = aliasing.roots
        self.owned = aliasing.owned
        self.constants = analyses.constant_values
        self.params = {p.value for p in function.params}
        self.taken_over: dict[ir.Value, str] = {}
        """The tensor whose memory a view, or its source, took over, or ""."""
        for view in function.ops_of(ir.View):
            is_reuse = view.mode is ir.ViewMode.REUSE
            self.taken_over[view.result] = (
                view.source.name if is_reuse else self.taken_over.get(view.source, "")
            )
        self.slots = {op.result: op for op in function.ops_of(ir.Slot)}
        self.users: dict[ir.Value, list[int]] = {}
        for at, op in enumerate(function.body):
            if not isinstance(op, _NAMING):
                for value in dict.fromkeys(ir.operands(op)):
                    for root in self.roots.get(value, NO_ROOTS):
                        self.users.setdefault(root, []).append(at)

    def found(self) -> Iterator[InPlace]:
        """Yields the explanations in op order."""
        for position, op in enumerate(self.function.body):
            arguments = list(self._arguments(op))
            reads: dict[Expr, list[_Argument]] = {}
            for read in arguments:
                if read.access is ir.Access.READ and ir.is_tensor(read.value):
                    reads.setdefault(ir.extent_bytes(read.value.type), []).append(read)
            for output in arguments:
                if output.access.writes:
                    yield from self._explained(position, op, output, reads)

    def _arguments(self, op: ir.Op) -> Iterator[_Argument]:
        match op:
            case ir.Launch() if (kernel := self.analyses.kernels.get(op.kernel)) is not None:
                for param, arg in zip(kernel.params, op.args):
                    if ir.is_tensor(arg):
                        yield _Argument(param.name, arg, param.access, param.may_alias)
            case ir.CallExtern():
                outputs = set(op.effects(self.analyses).writes)
                for value in dict.fromkeys(filter(ir.is_tensor, ir.operands(op))):
                    access = ir.Access.WRITE if value in outputs else ir.Access.READ
                    yield _Argument(value.name, value, access)
            case _:
                pass

    def _explained(
        self, position: int, op: ir.Op, output: _Argument, reads: Mapping[Expr, list[_Argument]]
    ) -> Iterator[InPlace]:
        over = self.taken_over.get(output.value)
        if over:
            yield InPlace(op=self.first + position, result=output.value.name, reused=over)
            return
        root = self._root(output.value)
        if (
            output.access is not ir.Access.WRITE
            or root is None
            or self.users.get(root, [position])[0] != position
        ):
            # it updates existing content
            return
        value = output.value
        others = reads.get(ir.extent_bytes(value.type), []) if ir.is_tensor(value) else []
        reasons = [f"%{a.value.name}: {self._against(position, op, output, a)}" for a in others[:_REASONS]]
        if len(others) > _REASONS:
            reasons.append(f"and {len(others) - _REASONS} more arguments of as many bytes")
        yield InPlace(
            op=self.first + position,
            result=output.value.name,
            reasons=tuple(dict.fromkeys(reasons)) or ("no argument has as many bytes",),
        )

    def _root(self, value: ir.Value) -> ir.Value | None:
        roots = self.roots.get(value, NO_ROOTS)
        return roots[0] if len(roots) == 1 else None

    def _against(self, position: int, op: ir.Op, output: _Argument, read: _Argument) -> str:
        """The first reason not to write the result over this argument."""
        if isinstance(op, ir.CallExtern):
            return f"operator {op.target} may read it after it has begun to write"
        if output.name not in read.may_alias and read.name not in output.may_alias:
            return (
                f"the kernel reads {read.name} at other indices than it writes {output.name}, or does not say"
            )
        root = self._root(read.value)
        if root is None:
            return "its memory is known only at run time"
        if root in self.constants:
            return "it is a constant"
        if root in self.params and root not in self.owned:
            return "it is the caller's"
        users = self.users.get(root, [])
        after = bisect_right(users, position)
        if later := users[after : after + _SHOWN]:
            more = len(users) - after - _SHOWN
            listed = ", ".join(str(self.first + at) for at in later)
            return f"still used by op {listed}" + (f" and {more} more" if more > 0 else "")
        if ir.is_storage(root) and root in self.slots:
            return "both are slots of a memory plan, which shares their bytes where that is possible"
        return "nothing: `wir opt --pass reuse-in-place` writes it there, unless address or stream differ"
