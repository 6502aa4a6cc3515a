"""Lets launches and accumulating matmuls write their result over an argument without later readers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from operator import itemgetter
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.accumulation import accumulated
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.expr import Int
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.memory.reuse_candidates import (
    first_uses,
    may_take_over,
    may_take_over_result,
    operator_results,
    relied_alignment,
    reusable_storages,
)


@dataclasses.dataclass(frozen=True)
class ReuseInPlace(Pass):
    """Lets launches write results over arguments that they are the last to read, and derives lifetimes again.

    A result takes over an argument's storage if the kernel allows both to be the same bytes (`may_alias`), or
    the operator adds a matmul to it (`addmm.out`, `baddbmm.out`). Nothing may use the argument's storage
    later, under any name, or the result's before. Both must start at the same byte of storages of the same
    size on one device and stream, and no other argument may be in either. Results equal those before, bit for
    bit, and the peak does not increase. An argument may be an operator's result, if no kernel relies on more
    alignment than is checked. With `donated`, it may be a donated argument. Other arguments of the program,
    its results, workspaces, pools, slots, and storages passed to callees are not taken over. A returned
    result, however, may be placed in an argument.
    """

    name: ClassVar[str] = "reuse-in-place"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    donated: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with fewer storages."""
        derived = analyses.after(derive_frees(analyses.program, analyses))
        program = derived.program
        reused = program.with_functions(
            [_Reuse(f, derived, self.donated).function_in_place() for f in program.functions]
        )
        return program if reused is program else derive_frees(reused)


class _Reuse:
    def __init__(self, function: ir.Function, analyses: Analyses, donated: bool) -> None:
        self.function, self.analyses = function, analyses
        self.live = analyses.get_for(function, analyse_liveness)
        self.roots = self.live.aliasing.roots
        self.places = analyses.get_for(function, tensor_places)
        self.storages = reusable_storages(function, analyses)
        self.operators = operator_results(function, analyses, donated=donated)
        self.relied = relied_alignment(function, analyses)
        self.first = first_uses(function, self.live.aliasing)
        self.over: dict[ir.Value, ir.Value[ir.TensorType]] = {}
        """The argument that each storage is replaced by, for the storages that go."""

    def function_in_place(self) -> ir.Function:
        """Returns the function; itself if no launch can write in place."""
        for position, op in enumerate(self.function.body):
            match op:
                case ir.Launch():
                    self._choose(position, op)
                case ir.CallExtern() if (pair := accumulated(op)) is not None:
                    self._accumulate(position, op, *pair)
                case _:
                    pass
        return self.function.with_body(self._rewritten()) if self.over else self.function

    def _choose(self, position: int, op: ir.Launch) -> None:
        """Chooses results that take over arguments; each storage once."""
        kernel = self.analyses.kernels.get(op.kernel)
        if kernel is None or len(kernel.params) != len(op.args):
            return
        tensors = [(p, a) for p, a in zip(kernel.params, op.args, strict=True) if ir.is_tensor(a)]
        sole: dict[ir.Value, int] = {}
        for _, value in tensors:
            for root in self.roots.get(value, NO_ROOTS):
                sole[root] = sole.get(root, 0) + 1
        for param, result in tensors:
            new = self._root(result)
            if (
                new not in self.storages
                or param.access is not ir.Access.WRITE
                or sole[new] != 1
                or self.first[new] != position
            ):
                continue
            for other, argument in tensors:
                old = self._root(argument)
                if old is None or sole[old] != 1 or self.live.storages.get(old) != position:
                    continue
                if _may_share(param, other) and self._fits(result, argument):
                    self.over[new] = argument
                    sole[old] += 1  # excludes other results
                    break

    def _accumulate(self, position: int, op: ir.CallExtern, result: ir.Value, argument: ir.Value) -> None:
        """Lets a matmul's result take over the argument that it is added to."""
        new, old = self._root(result), self._root(argument)
        uses = [root for value in ir.operands(op) for root in self.roots.get(value, NO_ROOTS)]
        if (
            new in self.storages
            and old is not None
            and uses.count(new) == uses.count(old) == 1
            and self.first[new] == position
            and self.live.storages.get(old) == position
            and ir.is_tensor(argument)
            and self._fits(result, argument)
        ):
            self.over[new] = argument

    def _root(self, value: ir.Value) -> ir.Value | None:
        """Returns the storage that is known to contain a tensor, if it may be removed or overwritten."""
        roots = self.roots.get(value, NO_ROOTS)
        return (
            roots[0]
            if len(roots) == 1 and (roots[0] in self.storages or roots[0] in self.operators)
            else None
        )

    def _fits(self, result: ir.Value, argument: ir.Value) -> bool:
        """Returns whether both start at the same byte of equal storages."""
        (new, start), (old, other) = (
            self.places.get(result, (result, None)),
            self.places.get(argument, (argument, None)),
        )
        if start is None or start != other or new not in self.storages:
            return False
        first = self._first(old)
        if first in self.operators:
            return may_take_over_result(self.storages[new], self.operators[first], self.relied)
        return may_take_over(self.storages[new], self.storages[old])

    def _first(self, root: ir.Value) -> ir.Value:
        """Returns the storage that contains a storage after the pass."""
        while root in self.over:
            root = self.places[self.over[root]][0]
        return root

    def _rewritten(self) -> Iterator[ir.Op]:
        """Yields the ops, with views of existing memory right before their first use.

        A view that equals the argument costs nothing.
        """
        defined: set[ir.Value] = set()
        names = {op.result for op in self.function.ops_of(ir.View)}
        waiting: dict[ir.Value, tuple[int, ir.View]] = {}
        for position, op in enumerate(self.function.body):
            match op:
                case ir.AllocStorage(result=result) if result in self.over:
                    continue
                case ir.View(source=source, result=result) if source in self.over or source in waiting:
                    waiting[result] = position, op
                    continue
                case _:
                    pass
            views: list[tuple[int, ir.View]] = []
            pending = list(ir.operands(op))
            for value in pending:
                if value in waiting:
                    views.append(waiting.pop(value))
                    pending.append(views[-1][1].source)
            for _, view in sorted(views, key=itemgetter(0)):
                yield self._view(view, defined) if view.source in self.over else view
                defined.add(view.result)
            yield op
            defined.update(names & {*ir.results(op)})

    def _view(self, op: ir.View, defined: set[ir.Value]) -> ir.View:
        argument = self.over[op.source]
        root, start = self.places[argument]
        if argument in defined and start == op.offset:
            return dataclasses.replace(op, source=argument, offset=Int(0))
        root = self._first(root)
        assert ir.is_storage(root) or ir.is_tensor(root)  # guaranteed by `storages` and `operators`
        return dataclasses.replace(op, source=root)


def _may_share(output: ir.KernelParam, read: ir.KernelParam) -> bool:
    return read.access is ir.Access.READ and (output.name in read.may_alias or read.name in output.may_alias)
