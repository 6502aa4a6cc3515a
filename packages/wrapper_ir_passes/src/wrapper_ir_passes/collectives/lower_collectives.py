"""Turns collectives into kernels that directly read the memory of the group's other processes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact.agreement import allocation_ids
from wrapper_ir.expr import Bool, Int
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes.cleanup.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir_passes.cleanup.new_names import NewNames
from wrapper_ir_passes.collectives.collective_forms import Form, with_forms_declared
from wrapper_ir_passes.collectives.collective_operands import Limits, operand_of
from wrapper_ir_passes.collectives.fuse_matmuls import Site, fuse_matmuls
from wrapper_ir_passes.collectives.lowering_candidates import CollectiveChoice, collective_choices
from wrapper_ir_passes.collectives.matmul_candidates import GATHER, Fusion, GatherFusion, ScatterFusion

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LowerCollectives(Pass):
    """Turns eligible collectives into kernels over symmetric memory, and derives lifetimes again.

    An all-reduce of at most `one_shot_all_reduce_threshold_bytes` becomes a one-shot kernel. One of at most
    `two_shot_all_reduce_threshold_bytes` becomes a two-shot kernel. A reduce-scatter of at most
    `one_shot_reduce_scatter_threshold_bytes` becomes a kernel that sums its share. Other gathers and scatters
    of at most `low_contention_threshold_bytes` use the copy engines. With `fused_matmuls`, gathers of at
    least `fused_matmuls_minimum_bytes` are fused with matmuls whose left factor is their result. A matmul
    that is only reduced and scattered is fused, too. `groups` names the groups whose processes can read each
    other's memory, separated by `:`; none: all. Without `auto_select` nothing changes. Log level INFO reports
    the form of each collective, with the reason. Symmetric storages and their ids depend only on the program:
    equal programs have equal ones. No operator uses multicast.
    """

    name: ClassVar[str] = "lower-collectives"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    auto_select: bool = True
    one_shot_all_reduce_threshold_bytes: int = 128 * 1024
    two_shot_all_reduce_threshold_bytes: int = 1024 * 1024
    one_shot_reduce_scatter_threshold_bytes: int = 1024 * 1024
    low_contention_threshold_bytes: int = 0
    fused_matmuls: bool = False
    fused_matmuls_minimum_bytes: int = 1024 * 1024
    groups: str = ""

    def transform(self, analyses: Analyses) -> ir.Program:
        """Returns the program with fewer collectives of the communication library."""
        choices = self.choices(analyses)
        for choice in choices:
            _LOG.info("%s", choice)
        if not self.auto_select:
            return derive_frees(analyses.program)
        return derive_frees(self._lowered(analyses))

    def choices(self, analyses: Analyses) -> tuple[CollectiveChoice, ...]:
        """Returns the form of each collective of the program, in order."""
        stripped = analyses.after(strip_frees(analyses.program))
        program, fusions = self._fused(stripped)
        unfused = {(c.function, c.op.results[0].name): c for c in self._unfused(stripped.after(program))}
        return tuple(
            _choice(function, position, op, unfused, fusions)
            for function in stripped.program.functions
            for position, op in function.positions_of(ir.CollectiveStart)
        )

    def _limits(self) -> Limits:
        return Limits(
            self.one_shot_all_reduce_threshold_bytes,
            self.two_shot_all_reduce_threshold_bytes,
            self.one_shot_reduce_scatter_threshold_bytes,
            self.low_contention_threshold_bytes,
            self.fused_matmuls_minimum_bytes,
            frozenset(filter(None, self.groups.split(":"))),
        )

    def _fused(self, stripped: Analyses) -> tuple[ir.Program, Mapping[Site, Fusion]]:
        """Returns the program with fused matmuls, if the option is on, and the possible fusion of each gather
        and scatter.
        """
        program, fusions = fuse_matmuls(stripped, self._limits())
        return (program if self.fused_matmuls else stripped.program), fusions

    def _unfused(self, stripped: Analyses) -> Iterator[CollectiveChoice]:
        """Yields the choices for collectives that are not fused with matmuls."""
        for function in stripped.program.functions:
            yield from collective_choices(function, stripped, self._limits())

    def comparable(self, before: ir.Program, after: ir.Program) -> tuple[ir.Program, ir.Program]:
        """Returns both programs with the kernels: a sum in another order has another value."""
        return (self._lowered(Analyses(before)) if self.auto_select else before), after

    def _lowered(self, analyses: Analyses) -> ir.Program:
        """The program with kernels, without frees."""
        stripped = analyses.after(strip_frees(analyses.program))
        ids = allocation_ids(stripped.program)
        program, _ = self._fused(stripped)
        unfused = self._unfused(stripped.after(program))
        choices = [(c, next(ids)) for c in unfused if c.form is not Form.LIBRARY]
        for choice, id in reversed(choices):  # the last one first: positions before it stay what they are
            program = _replaced(program, choice, id)
        return with_forms_declared(program)


def _choice(
    function: ir.Function,
    position: int,
    op: ir.CollectiveStart,
    unfused: Mapping[Site, CollectiveChoice],
    fusions: Mapping[Site, Fusion],
) -> CollectiveChoice:
    """Returns the form of a collective: fused, or that in `unfused`, with the reason why it is not fused."""
    site = function.name, op.results[0].name
    fusion = fusions.get(site)
    if site not in unfused:
        form = Form.GATHER_MATMULS if op.target == GATHER else Form.MATMUL_SCATTER
        return CollectiveChoice(function.name, position, op, form, str(fusion))
    why = unfused[site].why
    match fusion:
        case str() if fusion != why:
            why += f"; not fused with matmuls: {fusion}"
        case GatherFusion() | ScatterFusion():
            why += f"; option fused-matmuls is off, which would fuse it {fusion}"
        case _:
            pass
    return dataclasses.replace(unfused[site], position=position, op=op, why=why)


def _replaced(program: ir.Program, choice: CollectiveChoice, id: int) -> ir.Program:
    """The program with one collective replaced."""
    analyses = Analyses(program)
    function = analyses.functions[choice.function]
    changed = _Site(function, analyses, choice, id).rewritten()
    return program.with_functions(changed if f is function else f for f in program.functions)


class _Site:
    """One collective, and the changes around it."""

    def __init__(self, function: ir.Function, analyses: Analyses, choice: CollectiveChoice, id: int) -> None:
        self.function, self.analyses, self.choice = function, analyses, choice
        self.op = choice.op
        self.space = ir.MemorySpace(ir.MemoryKind.SYMMETRIC, self.op.group, id)
        self.fresh = NewNames(function, analyses)
        self.in_place = self.op.target.endswith("all_reduce_")

    def rewritten(self) -> ir.Function:
        if self.choice.form in (Form.ALL_GATHER, Form.REDUCE_SCATTER):
            return self.function.with_body(
                self.renamed_target() if at == self.choice.position else op
                for at, op in enumerate(self.function.body)
            )
        if self.choice.storage is None:
            return self.function.with_body(self.over_a_copy())
        return self.function.with_body(self.over_itself(self.choice.storage))

    def renamed_target(self) -> ir.CollectiveStart:
        """Returns the same collective with another operator."""
        tensor, group = self.op.args[0], self.op.group
        gather = self.choice.form is Form.ALL_GATHER
        args = (tensor, group) if gather else (tensor, "sum", group)
        return dataclasses.replace(self.op, target=self.choice.form.value, args=args, kwargs=())

    def over_a_copy(self) -> Iterator[ir.Op]:
        """Yields a buffer for the operand; the operator's result replaces the collective's."""
        tensor, at = operand_of(self.op), self.choice.position
        storage, buffer = self.new(f"{tensor.name}.symmetric", tensor.type, self.space)
        yield from self.function.body[:at]
        yield ir.AllocStorage(result=storage, prov=self.op.prov)
        yield ir.View(source=storage, result=buffer, prov=self.op.prov)
        yield ir.Copy(dst=buffer, src=tensor, prov=self.op.prov)
        yield from self.call(buffer, tensor if self.in_place else None)
        yield from self.finished(self.function.body[at + 1 :])

    def over_itself(self, storage: ir.Value) -> Iterator[ir.Op]:
        """Makes the operand's own storage symmetric; the operator's result has another storage.

        If the collective works in place, that storage replaces the operand's from then on.
        """
        body, at = self.function.body, self.choice.position
        assert ir.is_storage(storage)
        type = dataclasses.replace(storage.type, space=self.space)
        symmetric: ir.Value[ir.StorageType] = ir.Value(storage.name, type)
        moved: dict[ir.Value, ir.Value] = {storage: symmetric}
        for op in body[:at]:
            yield ir.map_values(op, lambda v: moved.get(v, v), lambda v: moved.get(v, v))
        calls = [*self.call(operand_of(self.op), None)]
        yield from calls
        (allocation,) = (op.result for op in calls if isinstance(op, ir.AllocStorage))
        if self.in_place:
            later = self.fresh.used_later(storage, self.choice.position)
            again = self.fresh.views_of(allocation, later, "sum")
            yield from (dataclasses.replace(view, prov=self.op.prov) for view in again.values())
            moved = {
                symmetric: allocation,
                storage: allocation,
                **{old: view.result for old, view in again.items()},
            }
        for op in self.finished(body[at + 1 :]):
            yield ir.map_values(op, lambda v: moved.get(v, v))

    def call(self, operand: ir.Value[ir.TensorType], out: ir.Value[ir.TensorType] | None) -> Iterator[ir.Op]:
        """Yields the kernel, into `out` or a new storage, and the collective's result as a name for that."""
        (handle,) = self.op.results
        if out is None:
            storage, out = self.new(f"{handle.name}.out", handle.type, ir.MemorySpace())
            yield ir.AllocStorage(result=storage, prov=self.op.prov)
            yield ir.View(source=storage, result=out, prov=self.op.prov)
        if self.choice.form is Form.ONE_SHOT_SCATTER:
            yield from self.scatter_call(operand, out)
        else:
            args = (operand, "sum", self.op.group, out)
            yield ir.CallExtern(target=self.choice.form.value, args=args, prov=self.op.prov)
        yield ir.View(source=out, result=handle, prov=self.op.prov)

    def scatter_call(self, operand: ir.Value[ir.TensorType], out: ir.Value[ir.TensorType]) -> Iterator[ir.Op]:
        """Yields the kernel that sums one share. It takes tensors of one dimension, since a share is
        consecutive rows.
        """
        flat = [self.flat(operand), self.flat(out)]
        yield from flat
        args = (flat[0].result, self.op.group, Bool(False), flat[1].result)
        yield ir.CallExtern(target=self.choice.form.value, args=args, prov=self.op.prov)

    def flat(self, tensor: ir.Value[ir.TensorType]) -> ir.View:
        """All elements of a contiguous tensor in one dimension."""
        type = tensor.type
        flat = ir.TensorType(type.dtype, (ir.numel(type.sizes),), (Int(1),), type.device)
        return ir.View(
            source=tensor, result=ir.Value(self.fresh(f"{tensor.name}.flat"), flat), prov=self.op.prov
        )

    def finished(self, body: tuple[ir.Op, ...]) -> Iterator[ir.Op]:
        """Yields the ops after it; its wait becomes a name."""
        for op in body:
            match op:
                case ir.Wait(source=source, result=result, prov=prov) if source in self.op.results:
                    yield ir.View(source=source, result=result, prov=prov)
                case _:
                    yield op

    def new(
        self, name: str, type: ir.TensorType, space: ir.MemorySpace
    ) -> tuple[ir.Value[ir.StorageType], ir.Value[ir.TensorType]]:
        """A storage for a contiguous tensor, and the tensor."""
        tensor: ir.Value[ir.TensorType] = ir.Value(self.fresh(name), type)
        return ir.Value(
            self.fresh(f"{name}.s"), ir.StorageType(ir.extent_bytes(type), type.device, space)
        ), tensor
