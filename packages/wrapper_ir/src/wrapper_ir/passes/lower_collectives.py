"""Turns collectives into kernels that read the memory of the group's other processes directly."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wrapper_ir.agreement import allocation_ids
from wrapper_ir.aliasing import NO_ROOTS
from wrapper_ir.analyses import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.layout import extent_bytes
from wrapper_ir.ops import AllocStorage, CallExtern, CollectiveStart, Copy, Op, View, Wait
from wrapper_ir.passes.base import Pass
from wrapper_ir.passes.collective_choices import CollectiveChoice, Form, Limits, collective_choices
from wrapper_ir.passes.derive_frees import DeriveFrees, derive_frees, strip_frees
from wrapper_ir.program import Function, Program
from wrapper_ir.schemas import ExternDef, ExternTag
from wrapper_ir.structure import definitions, map_values, operands, results
from wrapper_ir.types import MemoryKind, MemorySpace, StorageType, TensorType
from wrapper_ir.values import Value, is_tensor

__all__ = ["LowerCollectives"]

_LOG = logging.getLogger(__name__)
_SCHEMAS: Mapping[Form, tuple[str, tuple[str, ...]]] = {
    Form.ONE_SHOT: (
        "(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)",
        ("input",),
    ),
    Form.TWO_SHOT: (
        "(Tensor(a!) input, str reduce_op, str group_name, Tensor(b!) output) -> Tensor(b!)",
        ("input",),
    ),
    Form.REDUCE_SCATTER: ("(Tensor tensor, str reduce_op, str group_name) -> Tensor", ()),
    Form.ALL_GATHER: ("(Tensor tensor, str group_name) -> Tensor", ()),
}
"""By form, the schema of its operator, and which arguments must be symmetric memory."""


@dataclasses.dataclass(frozen=True)
class LowerCollectives(Pass):
    """Turns eligible collectives into kernels over symmetric memory, and derives lifetimes again.

    An all-reduce of at most `one_shot_all_reduce_threshold_bytes` becomes a one-shot one, of at most
    `two_shot_all_reduce_threshold_bytes` a two-shot one; gathers and scatters of at most `low_contention_threshold_bytes` use the copy
    engines. `groups` names the groups whose processes can read each other's memory, with `:` between them; none: all. Without
    `auto_select` nothing changes. Log level INFO says for each collective what it becomes, and why. Which storages are symmetric,
    and their ids, follow from the program alone: equal programs have equal ones. No operator uses multicast.
    """

    name: ClassVar[str] = "lower-collectives"
    repairs: ClassVar[frozenset[str]] = DeriveFrees.repairs

    auto_select: bool = True
    one_shot_all_reduce_threshold_bytes: int = 128 * 1024
    two_shot_all_reduce_threshold_bytes: int = 1024 * 1024
    low_contention_threshold_bytes: int = 0
    groups: str = ""

    def transform(self, analyses: Analyses) -> Program:
        """The program with fewer collectives of the library's."""
        choices = self.choices(analyses)
        for choice in choices:
            _LOG.info("%s", choice)
        if not self.auto_select:
            return derive_frees(analyses.program)
        return derive_frees(self._lowered(analyses))

    def choices(self, analyses: Analyses) -> tuple[CollectiveChoice, ...]:
        """What each collective of the program becomes, in order."""
        stripped = analyses.after(strip_frees(analyses.program))
        limits = Limits(
            self.one_shot_all_reduce_threshold_bytes,
            self.two_shot_all_reduce_threshold_bytes,
            self.low_contention_threshold_bytes,
            frozenset(filter(None, self.groups.split(":"))),
        )
        return tuple(
            choice for f in stripped.program.functions for choice in collective_choices(f, stripped, limits)
        )

    def comparable(self, before: Program, after: Program) -> tuple[Program, Program]:
        """Both with the kernels: a sum in another order is another value."""
        return (self._lowered(Analyses(before)) if self.auto_select else before), after

    def _lowered(self, analyses: Analyses) -> Program:
        """The program with kernels, without frees."""
        program = strip_frees(analyses.program)
        ids = allocation_ids(program)
        choices = [(c, next(ids)) for c in self.choices(analyses) if c.form is not Form.LIBRARY]
        for choice, id in reversed(choices):  # the last one first: positions before it stay what they are
            program = _replaced(program, choice, id)
        used = {choice.form for choice, _ in choices}
        known = {e.name for e in program.externs}
        new = [_extern(form) for form in Form if form in used and form.value not in known]
        return dataclasses.replace(program, externs=(*program.externs, *new))


def _extern(form: Form) -> ExternDef:
    schema, symmetric = _SCHEMAS[form]
    return ExternDef(schema=form.value + schema, tags=(ExternTag.COLLECTIVE,), symmetric=symmetric)


def _replaced(program: Program, choice: CollectiveChoice, id: int) -> Program:
    """The program with one collective replaced."""
    analyses = Analyses(program)
    function = analyses.functions[choice.function]
    changed = _Site(function, analyses, choice, id).rewritten()
    return program.with_functions(changed if f is function else f for f in program.functions)


class _Site:
    """One collective, and what is changed around it."""

    def __init__(self, function: Function, analyses: Analyses, choice: CollectiveChoice, id: int) -> None:
        self.function, self.analyses, self.choice = function, analyses, choice
        op = function.body[choice.position]
        assert isinstance(op, CollectiveStart)
        self.op = op
        self.space = MemorySpace(MemoryKind.SYMMETRIC, op.group, id)
        self.taken = {v.name for v in (*definitions(function), *analyses.constant_values)}
        self.in_place = op.target.endswith("all_reduce_")

    def rewritten(self) -> Function:
        if self.choice.form in (Form.ALL_GATHER, Form.REDUCE_SCATTER):
            return self.function.with_body(
                self.renamed_target() if at == self.choice.position else op
                for at, op in enumerate(self.function.body)
            )
        if self.choice.storage is None:
            return self.function.with_body(self.over_a_copy())
        return self.function.with_body(self.over_itself(self.choice.storage))

    def renamed_target(self) -> CollectiveStart:
        """The same collective by another operator."""
        tensor, group = self.op.args[0], self.op.group
        gather = self.choice.form is Form.ALL_GATHER
        args = (tensor, group) if gather else (tensor, "sum", group)
        return dataclasses.replace(self.op, target=self.choice.form.value, args=args, kwargs=())

    def over_a_copy(self) -> Iterator[Op]:
        """A buffer for the operand; what the operator gives goes where the collective's result was."""
        tensor, at = self.tensor(), self.choice.position
        storage, buffer = self.new(f"{tensor.name}.symmetric", tensor.type, self.space)
        yield from self.function.body[:at]
        yield AllocStorage(result=storage, prov=self.op.prov)
        yield View(source=storage, result=buffer, prov=self.op.prov)
        yield Copy(dst=buffer, src=tensor, prov=self.op.prov)
        yield from self.call(buffer, tensor if self.in_place else None)
        yield from self.finished(self.function.body[at + 1 :])

    def over_itself(self, storage: Value) -> Iterator[Op]:
        """The operand's own storage is symmetric; what the operator gives has another one, which takes its place from then on
        where the collective works in place."""
        body, at = self.function.body, self.choice.position
        assert isinstance(storage.type, StorageType)
        type = dataclasses.replace(storage.type, space=self.space)
        symmetric: Value[StorageType] = Value(storage.name, type)
        moved: dict[Value, Value] = {storage: symmetric}
        for op in body[:at]:
            if isinstance(op, AllocStorage) and op.result is storage:
                yield dataclasses.replace(op, result=symmetric)
            else:
                yield map_values(op, lambda v: moved.get(v, v))
        calls = [*self.call(self.tensor(), None)]
        yield from calls
        (made,) = (op.result for op in calls if isinstance(op, AllocStorage))
        if self.in_place:
            again = self.again(storage, made)
            yield from again.values()
            moved = {symmetric: made, storage: made, **{old: view.result for old, view in again.items()}}
        for op in self.finished(body[at + 1 :]):
            yield map_values(op, lambda v: moved.get(v, v))

    def again(self, storage: Value, made: Value[StorageType]) -> dict[Value, View]:
        """Views of the new storage for the names over the old one that are used later."""
        at, body = self.choice.position, self.function.body
        places = self.analyses.get_for(self.function, tensor_places)
        roots = self.analyses.aliasing(self.function).roots
        before = {v for op in body[: at + 1] for v in results(op)} - {*self.op.results}
        later = dict.fromkeys(v for op in body[at + 1 :] for v in operands(op) if v in before)
        found: dict[Value, View] = {}
        for value in filter(is_tensor, later):
            if storage in roots.get(value, NO_ROOTS):
                result: Value[TensorType] = Value(self.fresh(f"{value.name}.sum"), value.type)
                offset = places[value][1]
                found[value] = View(source=made, result=result, offset=offset, prov=self.op.prov)
        return found

    def call(self, operand: Value[TensorType], out: Value[TensorType] | None) -> Iterator[Op]:
        """The kernel, into `out` or a storage of its own, and the collective's result as a name for that."""
        (handle,) = self.op.results
        if out is None:
            storage, out = self.new(f"{handle.name}.out", handle.type, MemorySpace())
            yield AllocStorage(result=storage, prov=self.op.prov)
            yield View(source=storage, result=out, prov=self.op.prov)
        args = (operand, "sum", self.op.group, out)
        yield CallExtern(target=self.choice.form.value, args=args, prov=self.op.prov)
        yield View(source=out, result=handle, prov=self.op.prov)

    def finished(self, body: tuple[Op, ...]) -> Iterator[Op]:
        """The ops after it; its wait only gives a name."""
        for op in body:
            if isinstance(op, Wait) and op.source in self.op.results:
                yield View(source=op.source, result=op.result, prov=op.prov)
            else:
                yield op

    def tensor(self) -> Value[TensorType]:
        value = self.op.args[0] if self.op.args else dict(self.op.kwargs)["input"]
        assert isinstance(value, Value)
        assert is_tensor(value)
        return value

    def new(
        self, name: str, type: TensorType, space: MemorySpace
    ) -> tuple[Value[StorageType], Value[TensorType]]:
        """A storage for a contiguous tensor, and the tensor."""
        tensor: Value[TensorType] = Value(self.fresh(name), type)
        return Value(self.fresh(f"{name}.s"), StorageType(extent_bytes(type), type.device, space)), tensor

    def fresh(self, wish: str) -> str:
        while wish in self.taken:
            wish += "_"
        self.taken.add(wish)
        return wish
