"""Fuses collectives with the matmuls that compute their operands or use their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import Expr, Int
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.collectives.collective_forms import Form, with_forms_declared
from wrapper_ir_passes.collectives.collective_operands import Limits, arguments_of, operand_of
from wrapper_ir_passes.collectives.matmul_candidates import (
    GATHER,
    SCATTER,
    Fusion,
    GatherFusion,
    Matmul,
    ScatterFusion,
    fusion_of,
    root_set,
)

Site = tuple[str, str]
"""A function, and the first result of one of its collectives, by name."""
_NAMES = ir.AssertLayout | ir.View | ir.Wait


def fuse_matmuls(analyses: Analyses, limits: Limits) -> tuple[ir.Program, Mapping[Site, Fusion]]:
    """Returns the program, without frees, with fused operators, and the fusion of each gather and
    reduce-scatter.

    For those that are not fused, the result has the reason. The order of all collectives is kept.
    """
    fusions: dict[Site, Fusion] = {}
    for name in [f.name for f in analyses.program.functions]:
        for result in _collectives(analyses.functions[name]):
            function = analyses.functions[name]
            starts = function.positions_of(ir.CollectiveStart)
            position, op = next((at, op) for at, op in starts if result in op.results)
            fusion = fusions[name, result.name] = fusion_of(position, op, function, analyses, limits)
            match fusion:
                case str():
                    continue
                case GatherFusion():
                    body = tuple(_Gather(function, analyses, fusion).body())
                case ScatterFusion():
                    body = tuple(_scattered(function, analyses, fusion))
                case _:
                    assert_never(fusion)
            functions = (f.with_body(body) if f is function else f for f in analyses.program.functions)
            analyses = Analyses(with_forms_declared(analyses.program.with_functions(functions)))
    return analyses.program, fusions


def _collectives(function: ir.Function) -> list[ir.Value]:
    return [op.results[0] for op in function.ops_of(ir.CollectiveStart) if op.target in (GATHER, SCATTER)]


def _window(source: ir.Value[ir.TensorType], name: str, *sizes: Expr) -> ir.View:
    """A view of the same bytes as a matrix."""
    type = ir.TensorType(source.type.dtype, sizes, ir.contiguous_strides(sizes), source.type.device)
    return ir.View(source=source, result=ir.Value(name, type))


def _without_unused(body: Sequence[ir.Op], names: set[ir.Value]) -> Iterator[ir.Op]:
    """Yields ops except for unused storages and views among `names`."""
    operands: set[ir.Value] = set()
    ops: list[ir.Op] = []
    for op in reversed(body):
        match op:
            case ir.AllocStorage() | ir.View() if op.result in names and op.result not in operands:
                pass
            case _:
                operands.update(ir.operands(op))
                ops.append(op)
    return reversed(ops)


class _Gather:
    """One gather, and its matmuls."""

    def __init__(self, function: ir.Function, analyses: Analyses, fusion: GatherFusion) -> None:
        self.function, self.analyses, self.fusion = function, analyses, fusion
        self.new = NewNames(function, analyses)
        self.op, self.prov = fusion.op, fusion.op.prov
        (self.handle,) = self.op.results
        self.gathered = root_set((self.handle,), function, analyses)
        self.matmuls = {p.position: p for p in fusion.matmuls}
        self.products: dict[int, ir.Value[ir.TensorType]] = {}
        """By position of a matmul: the operator's result for it."""
        self.moved: dict[ir.Value, ir.Value] = {}
        self.replaced: set[ir.Value] = set()
        self.is_read = any(map(self.reads, range(fusion.position + 1, len(function.body))))

    def reads(self, at: int) -> bool:
        """Returns whether an op other than the matmuls needs the gathered tensor."""
        op = self.function.body[at]
        return at not in self.matmuls and not isinstance(op, _NAMES) and self.uses(op)

    def uses(self, op: ir.Op) -> bool:
        return not self.gathered.isdisjoint(root_set(ir.operands(op), self.function, self.analyses))

    def body(self) -> Iterator[ir.Op]:
        body, fusion = self.function.body, self.fusion
        between = [at for at in range(fusion.position + 1, fusion.at) if at not in fusion.delayed]
        before = [*body[: fusion.position], *(body[at] for at in between)]
        before += self.fused({v for op in before for v in ir.results(op)})
        for at in (*fusion.delayed, *range(fusion.at, len(body))):
            before += self.after(at)
        return _without_unused(before, self.replaced)

    def fused(self, defined: set[ir.Value]) -> Iterator[ir.Op]:
        """Yields the operator, and names for its results."""
        tensor, matmuls = operand_of(self.op), self.fusion.matmuls
        rows, columns = matmuls[0].lhs.type.sizes
        share = Int(matmuls[0].rows // self.fusion.size)
        window = _window(tensor, self.new(f"{tensor.name}.rows"), share, columns)
        if window.result.type != tensor.type:
            yield dataclasses.replace(window, prov=self.prov)
            tensor = window.result
        factors: list[ir.Value] = []
        for matmul in matmuls:
            view = self.factor(matmul.rhs, defined)
            if view is not None:
                yield view
            factors.append(matmul.rhs if view is None else view.result)
        call: ir.Value[ir.TupleType] = ir.Value(self.new(f"{self.handle.name}.matmuls"), ir.TupleType())
        args = (tensor, tuple(factors), Int(0), self.op.group)
        yield ir.CallExtern(target=Form.GATHER_MATMULS.value, args=args, result=call, prov=self.prov)
        if self.is_read:
            whole = _window(self.handle, self.new(f"{self.handle.name}.rows"), rows, columns).result
            yield ir.Unpack(source=call, path=(0,), result=whole, prov=self.prov)
            yield ir.View(source=whole, result=self.handle, prov=self.prov)
        for number, matmul in enumerate(matmuls):
            yield ir.Unpack(source=call, path=(1, number), result=self.result(matmul), prov=self.prov)

    def factor(self, value: ir.Value[ir.TensorType], defined: set[ir.Value]) -> ir.View | None:
        """Returns a view of a factor that is named only later; None if it is named already."""
        if value in defined or value not in {v for op in self.function.body for v in ir.results(op)}:
            return None
        root, offset = self.analyses.get_for(self.function, tensor_places)[value]
        assert ir.is_tensor(root) or ir.is_storage(root)
        result: ir.Value[ir.TensorType] = ir.Value(self.new(f"{value.name}.early"), value.type)
        return ir.View(source=root, result=result, offset=offset, prov=self.prov)

    def result(self, matmul: Matmul) -> ir.Value[ir.TensorType]:
        """Returns the name of the operator's matmul: that of the replaced op if it has one."""
        result = matmul.result
        value: ir.Value[ir.TensorType] = (
            result if matmul.op.result else ir.Value(self.new(f"{result.name}.matmul"), result.type)
        )
        self.products[matmul.position] = value
        return value

    def after(self, at: int) -> Iterator[ir.Op]:
        """Yields the replacement of an op after the operator."""
        match self.function.body[at]:
            case _ if at in self.matmuls:
                yield from self.matmul(self.matmuls[at])
            case (ir.AssertLayout() | ir.View() | ir.Wait()) as op if not self.is_read and self.uses(op):
                return
            case ir.Wait(source=source, result=result, prov=prov) if source is self.handle:
                yield ir.View(source=self.handle, result=result, prov=prov)
            case op:
                yield ir.map_values(op, lambda v: self.moved.get(v, v))

    def matmul(self, matmul: Matmul) -> Iterator[ir.Op]:
        """Makes later ops use the operator's matmul instead of the storage that the op would write, or copies
        it there.
        """
        result, prov = self.products[matmul.position], matmul.op.prov
        if result is matmul.result:
            return
        later = self.replaceable(matmul)
        if later is None:
            out = self.moved.get(matmul.result, matmul.result)
            yield ir.Copy(dst=ir.as_tensor(out), src=result, prov=prov)
            return
        views = self.new.views_of(result, (v for v in later if v is not matmul.result), "matmul")
        for value, view in views.items():
            yield dataclasses.replace(view, prov=prov)
            self.moved[value] = view.result
        storage = self.root(matmul.result)
        self.moved |= {matmul.result: result, storage: result}
        roots = self.analyses.aliasing(self.function).roots
        self.replaced |= {value for value, own in roots.items() if own == (storage,)}

    def root(self, tensor: ir.Value) -> ir.Value:
        return self.analyses.aliasing(self.function).roots.get(tensor, (tensor,))[0]

    def replaceable(self, matmul: Matmul) -> tuple[ir.Value[ir.TensorType], ...] | None:
        """Returns the names over the storage of an op's matmul that later ops use; None if they cannot be
        names over other memory.
        """
        storage, aliasing = self.root(matmul.result), self.analyses.aliasing(self.function)
        places = self.analyses.get_for(self.function, tensor_places)
        allocations = self.function.ops_of(ir.AllocStorage)
        allocation = next((op for op in allocations if op.result == storage), None)
        if allocation is None or not self.is_own(allocation, matmul):
            return None
        for op in self.function.body[matmul.position + 1 :]:
            for value in ir.operands(op):
                roots = aliasing.roots.get(value, NO_ROOTS)
                if value is storage and not isinstance(op, ir.View):
                    return None
                if storage in roots and (
                    roots != (storage,) or (value is not storage and value not in places)
                ):
                    return None
        return self.new.used_later(storage, matmul.position)

    def is_own(self, allocation: ir.AllocStorage, matmul: Matmul) -> bool:
        """Returns whether a storage was allocated for the matmul alone."""
        type, crossing = allocation.result.type, self.analyses.get_for(self.function, crossing_streams)
        usual = (
            allocation.purpose is ir.AllocPurpose.PLAIN
            and not allocation.stream
            and allocation.result not in crossing
        )
        return usual and not type.is_group_memory and type.nbytes == ir.extent_bytes(matmul.result.type)


def _scattered(function: ir.Function, analyses: Analyses, fusion: ScatterFusion) -> Iterator[ir.Op]:
    """The function's ops with one operator in place of a reduce-scatter and its operand's matmul."""
    op, matmul, new = fusion.op, fusion.matmul, NewNames(function, analyses)
    (handle,) = op.results
    roots = root_set((matmul.result,), function, analyses)
    names = {v for v, own in analyses.aliasing(function).roots.items() if not roots.isdisjoint(own)}
    share = Int(matmul.rows // fusion.size), matmul.result.type.sizes[1]
    part = _window(matmul.result, new(f"{handle.name}.rows"), *share).result
    args = (matmul.lhs, matmul.rhs, arguments_of(op, analyses)["reduce_op"], Int(0), op.group)
    ops: list[ir.Op] = []
    for at, other in enumerate(function.body):
        match other:
            case _ if at == fusion.position:
                target = Form.MATMUL_SCATTER.value
                ops.append(ir.CallExtern(target=target, args=args, result=part, prov=op.prov))
                ops.append(ir.View(source=part, result=handle, prov=op.prov))
            case ir.Wait(source=source, result=result, prov=prov) if source is handle:
                ops.append(ir.View(source=handle, result=result, prov=prov))
            case ir.AssertLayout() if not names.isdisjoint(ir.operands(other)):
                pass
            case _ if at != matmul.position:
                ops.append(other)
            case _:
                pass
    return _without_unused(ops, names)
