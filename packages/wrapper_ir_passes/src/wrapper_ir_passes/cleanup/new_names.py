"""New names for a function, and views of a new storage that replace views of another one."""

from __future__ import annotations

from collections.abc import Iterable

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places


class NewNames:
    """New names for one function."""

    def __init__(self, function: ir.Function, analyses: Analyses) -> None:
        self.function, self.analyses = function, analyses
        self._taken = {v.name for v in (*ir.definitions(function), *analyses.constant_values)}

    def __call__(self, wish: str) -> str:
        """A name like this one."""
        while wish in self._taken:
            wish += "_"
        self._taken.add(wish)
        return wish

    def used_later(self, storage: ir.Value, at: int) -> tuple[ir.Value[ir.TensorType], ...]:
        """Tensors that may be in a storage, are defined up to the op at `at`, and are used later."""
        body, roots = self.function.body, self.analyses.aliasing(self.function).roots
        before = {v for op in body[: at + 1] for v in ir.results(op)} - {*ir.results(body[at])}
        later = dict.fromkeys(v for op in body[at + 1 :] for v in ir.operands(op) if v in before)
        return tuple(v for v in filter(ir.is_tensor, later) if storage in roots.get(v, NO_ROOTS))

    def views_of(
        self,
        base: ir.Value[ir.StorageType] | ir.Value[ir.TensorType],
        values: Iterable[ir.Value[ir.TensorType]],
        suffix: str,
    ) -> dict[ir.Value, ir.View]:
        """Views of `base` with the same windows as these tensors have in their storages."""
        places = self.analyses.get_for(self.function, tensor_places)
        views: dict[ir.Value, ir.View] = {}
        for value in values:
            result: ir.Value[ir.TensorType] = ir.Value(self(f"{value.name}.{suffix}"), value.type)
            views[value] = ir.View(source=base, result=result, offset=places[value][1])
        return views
