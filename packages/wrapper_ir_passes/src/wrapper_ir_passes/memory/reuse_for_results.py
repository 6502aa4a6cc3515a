"""Places results of a function in storages that are no longer needed."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.liveness import analyse_liveness
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Int
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.analysis.memory import held_outside
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees
from wrapper_ir_passes.memory.reuse_candidates import (
    may_take_over,
    may_take_over_result,
    operator_results,
    relied_alignment,
    returned_storages,
    reusable_storages,
)


@dataclasses.dataclass(frozen=True)
class ReuseForResults(Pass):
    """Lets results of a function take over storages that nothing uses any more, and derives lifetimes again.

    Results are never in pools, so each needs an allocation; this pass saves it. A result takes over a storage
    of as many bytes, of any element type, on the same device and stream. The storage's last use must be
    before the result's first use. Operators' results can be taken over, and with `donated` arguments that the
    caller donates, if no kernel relies on more alignment than is checked. Of several storages, the one that
    ended last is used, and none if keeping it would increase the peak under the symbols' hints.
    """

    name: ClassVar[str] = "reuse-for-results"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs
    donated: bool = False

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with fewer storages."""
        derived = analyses.after(derive_frees(analyses.program, analyses))
        program, sizes = derived.program, Sizes(derived.program)
        reused = program.with_functions(
            [_Reuse(f, derived, sizes, self.donated).reused() for f in program.functions]
        )
        return program if reused is program else derive_frees(reused)


_MOST_TRIED = 8
"""Number of storages of a size that are tried for a result: they differ in alignment at most."""


class _Reuse:
    def __init__(self, function: ir.Function, analyses: Analyses, sizes: Sizes, donated: bool) -> None:
        self.function, self.analyses, self.sizes = function, analyses, sizes
        self.live = analyses.get_for(function, analyse_liveness)
        self.storages = reusable_storages(function, analyses)
        self.operators = operator_results(function, analyses, donated=donated)
        self.relied = relied_alignment(function, analyses)
        self.allocated: dict[ir.Value, int] = {}
        self.freed: dict[ir.Value, int] = {}
        self.direct: dict[ir.Value, list[ir.View]] = {}
        """The views of each storage itself."""
        self.views: dict[ir.Value, list[ir.View]] = {}
        """Those of each root, in order."""
        self.named: dict[ir.Value, int] = {}
        """The position of the first use of each tensor, by views too."""
        for at, op in enumerate(function.body):
            for value in ir.operands(op):
                self.named.setdefault(value, at)
            match op:
                case ir.AllocStorage(result=result):
                    self.allocated[result] = at
                case ir.Free(storage=storage):
                    self.freed[storage] = at
                case ir.View(source=source, result=result):
                    self.direct.setdefault(source, []).append(op)
                    for root in self.live.aliasing.roots.get(result, NO_ROOTS):
                        self.views.setdefault(root, []).append(op)
                case _:
                    pass

    def reused(self) -> ir.Function:
        """Returns the function; itself if no result can take over a storage."""
        returned = returned_storages(self.function, self.live, self.storages.keys())
        results = {r: view for r in returned if (view := self._view(r)) is not None}
        if not results:
            return self.function
        try:
            outside = held_outside(self.function, self.analyses, self.sizes, frozenset())
            takeovers = self._choose(results, outside)
        except ExpressionError:
            return self.function  # a size has no value under the hints: the peak is unknown
        return self.function.with_body(self._rewritten(results, takeovers)) if takeovers else self.function

    def _view(self, storage: ir.Value) -> ir.View | None:
        """Returns the only tensor over a storage, if it starts at the storage's first byte."""
        direct = self.direct.get(storage, ())
        return direct[0] if len(direct) == 1 and direct[0].offset == Int(0) else None

    def _choose(
        self, results: Mapping[ir.Value, ir.View], outside: list[int]
    ) -> dict[ir.Value, ir.Value[ir.TensorType]]:
        """Returns the tensor whose storage each result takes over."""
        ends = self.live.storages
        spare: dict[Hashable, list[ir.Value]] = {}
        for storage in sorted(ends, key=ends.__getitem__):
            is_known = storage in self.storages or storage in self.operators
            if is_known and self._last_tensor(storage) is not None:
                spare.setdefault(self._kind(storage), []).append(storage)
        limit = max(outside)
        takeovers: dict[ir.Value, ir.Value[ir.TensorType]] = {}
        for result, view in sorted(results.items(), key=lambda item: self.named[item[1].result]):
            storages = spare.get(self._kind(result), [])
            ended = bisect_left(storages, self.named[view.result], key=ends.__getitem__)
            for at in range(ended - 1, max(-1, ended - 1 - _MOST_TRIED), -1):
                waits = range(self.freed[storages[at]] + 1, self.allocated[result])
                if any(outside[t] + self.sizes.bytes_of(result) > limit for t in waits):
                    break  # earlier ones would be kept longer
                last = self._last_tensor(storages[at])
                if last is not None and self._fits(result, storages[at]):
                    for t in waits:
                        outside[t] += self.sizes.bytes_of(result)
                    takeovers[result] = last
                    del storages[at]
                    break
        return takeovers

    def _fits(self, result: ir.Value, old: ir.Value) -> bool:
        """Returns whether the result can take over this storage."""
        if old in self.operators:
            return may_take_over_result(self.storages[result], self.operators[old], self.relied)
        return may_take_over(self.storages[result], self.storages[old])

    def _kind(self, storage: ir.Value) -> Hashable:
        operator_result = self.operators.get(storage)
        if operator_result is not None:
            return (
                ir.extent_bytes(operator_result.value.type),
                operator_result.value.type.device,
                operator_result.stream,
            )
        op = self.storages[storage]
        return op.result.type.nbytes, op.result.type.device, op.stream

    def _last_tensor(self, storage: ir.Value) -> ir.Value[ir.TensorType] | None:
        """Returns a tensor that starts at its storage's first byte and whose name lives as long."""
        places = self.analyses.get_for(self.function, tensor_places)
        names = [storage] if ir.is_tensor(storage) else []
        for view in self.views.get(storage, ()):
            if view.mode is ir.ViewMode.REUSE:
                names.clear()
            if places.get(view.result) == (storage, Int(0)) and ir.is_tensor(view.result):
                names.append(view.result)
        certain = [n for n in names if self.live.aliasing.roots.get(n) == (storage,)]
        return certain[-1] if certain else None

    def _rewritten(
        self, results: Mapping[ir.Value, ir.View], takeovers: Mapping[ir.Value, ir.Value[ir.TensorType]]
    ) -> Iterator[ir.Op]:
        """Returns ops that create each result's tensor right before its first use, when the other storage's
        names have ended.
        """
        begins: dict[int, list[ir.View]] = {}
        for result, tensor in takeovers.items():
            new = dataclasses.replace(results[result], source=tensor, mode=ir.ViewMode.REUSE)
            begins.setdefault(self.named[new.result], []).append(new)
        for position, op in enumerate(self.function.body):
            yield from begins.get(position, ())
            match op:
                case ir.AllocStorage(result=storage) | ir.View(source=storage) if storage in takeovers:
                    pass
                case _:
                    yield op
