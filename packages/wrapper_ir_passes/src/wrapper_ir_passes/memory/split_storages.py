"""Splits storages whose content is dead between two uses."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Int, mul
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.analysis.contents import contents_of
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.memory.reuse_candidates import reusable_storages


@dataclasses.dataclass(frozen=True)
class SplitStorages(Pass):
    """Splits storages whose content is not read again between two uses, and derives lifetimes again.

    In between, others may use the place. A storage is split before an op that overwrites everything that is
    read later, if another op is between that and the previous use. Results equal those before, bit for bit,
    and no op needs more memory, but there are more allocations: run `plan-memory` afterwards. Only storages
    that are used as tensors, on one stream, through views at fixed places, or all at the same place, are
    split.
    """

    name: ClassVar[str] = "split-storages"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    def transform(self, analyses: Analyses) -> ir.Program:
        """The program with more storages, each needed for a shorter time."""
        stripped = analyses.after(strip_frees(analyses.program))
        program, sizes = stripped.program, Sizes(stripped.program)
        split = program.with_functions([_Split(f, stripped, sizes).split() for f in program.functions])
        return derive_frees(split if split is not program else analyses.program)


_Names = ir.AllocStorage | ir.Comment | ir.EndOp | ir.View


class _Split:
    def __init__(self, function: ir.Function, analyses: Analyses, sizes: Sizes) -> None:
        self.function, self.analyses, self.sizes = function, analyses, sizes
        self.places = analyses.get_for(function, tensor_places)
        self.storages = reusable_storages(function, analyses)
        self.new = NewNames(function, analyses)
        self.begins: dict[ir.Value, list[int]] = {}
        """The positions at which the parts of each split storage begin."""
        self.parts: dict[tuple[ir.Value, int], ir.Value[ir.StorageType]] = {}
        self.tensors: dict[tuple[ir.Value, int], ir.Value[ir.TensorType]] = {}
        """The storage of each part, and the tensor over it in place of one over the whole."""
        self.first: dict[ir.Value, int] = {}
        """The part in which each tensor is used first: there it keeps its name."""

    def split(self) -> ir.Function:
        """Returns the function; itself if nothing can be split."""
        try:
            views = self._views()
            spans = contents_of(self.function, self.analyses, self.sizes).spans if views else {}
        except ExpressionError:
            return self.function  # a size has no value under the hints
        work = [p for p, op in enumerate(self.function.body) if not isinstance(op, _Names)]
        for root, times in spans.items():
            if root in views and len(times) > 1:
                begins = [
                    after[0]
                    for before, after in pairwise(times)
                    if bisect_right(work, before[1]) < bisect_right(work, after[0] - 1)
                ]
                if begins:
                    self.begins[root] = [times[0][0], *begins]
        return self.function.with_body(self._rewritten()) if self.begins else self.function

    def _views(self) -> dict[ir.Value, set[tuple[Expr, Expr]]]:
        """Storages whose tensors are all views at valid places for all sizes, with these: (first byte,
        bytes).
        """
        places: dict[ir.Value, set[tuple[Expr, Expr]]] = {root: set() for root in self.storages}
        symbolic = set[ir.Value]()
        viewed = {op.result for op in self.function.ops_of(ir.View)}
        for value, roots in self.analyses.aliasing(self.function).roots.items():
            for root in roots if ir.is_tensor(value) else NO_ROOTS:
                place = self.places.get(value)
                if root not in places:
                    continue
                if place is None or roots != (root,) or place[0] is not root or value not in viewed:
                    del places[root]
                    continue
                assert ir.is_tensor(value)  # other values are skipped
                places[root].add((place[1], ir.extent_bytes(value.type)))
                if ir.type_symbols(value.type) or place[1].free_symbols:
                    symbolic.add(root)
                    if not self._has_all_bytes(value.type):
                        places.pop(root)
        return {
            root: windows for root, windows in places.items() if root not in symbolic or len(windows) == 1
        }

    def _has_all_bytes(self, type: ir.TensorType) -> bool:
        """Returns whether the tensor has an element at every byte in its span, for all sizes.

        Under the hints, it must have some elements.
        """
        extent = ir.extent_bytes(type)
        return extent == mul(ir.numel(type.sizes), Int(type.dtype.itemsize)) and self.sizes.number(extent) > 0

    def _rewritten(self) -> Iterator[ir.Op]:
        """The ops, each storage and view of a part right before the first op that uses it."""
        for position, op in enumerate(self.function.body):
            match op:
                case ir.AllocStorage(result=storage) if storage in self.begins:
                    continue
                case ir.View(result=tensor) if self._root(tensor) is not None:
                    continue
                case _:
                    pass
            new: dict[ir.Value, ir.Value] = {}
            for value in filter(ir.is_tensor, ir.operands(op)):
                root = self._root(value)
                if root is not None and value not in new:
                    part = bisect_right(self.begins[root], position) - 1
                    yield from self._named(value, root, part)
                    new[value] = self.tensors[value, part]
            yield ir.map_values(op, lambda v: new.get(v, v)) if new else op  # noqa: B023

    def _root(self, value: ir.Value) -> ir.Value | None:
        """Returns the split storage that contains a tensor."""
        place = self.places.get(value)
        return place[0] if place is not None and place[0] in self.begins and place[0] is not value else None

    def _named(self, value: ir.Value[ir.TensorType], root: ir.Value, part: int) -> Iterator[ir.Op]:
        """Yields the ops that create a part of a storage, and a tensor over it, if they do not exist."""
        alloc = self.storages[root]
        if (root, part) not in self.parts:
            its = alloc.result
            self.parts[root, part] = ir.Value(self.new(f"{its.name}.{part}"), its.type) if part else its
            yield dataclasses.replace(alloc, result=self.parts[root, part])
        if (value, part) not in self.tensors:
            keeps = self.first.setdefault(value, part) == part
            self.tensors[value, part] = (
                value if keeps else ir.Value(self.new(f"{value.name}.{part}"), value.type)
            )
            yield ir.View(
                source=self.parts[root, part],
                result=self.tensors[value, part],
                offset=self.places[value][1],
                prov=alloc.prov,
            )
