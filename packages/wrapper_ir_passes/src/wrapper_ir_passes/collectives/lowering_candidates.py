"""Candidates for kernels over symmetric memory among collectives, with the reasons against the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.streams import crossing_streams
from wrapper_ir.expr import as_int
from wrapper_ir_passes.collectives.collective_forms import Form
from wrapper_ir_passes.collectives.collective_operands import (
    Limits,
    arguments_of,
    group_size,
    operand_of,
    origin_of,
    why_not_shared,
    why_storage_stays,
)
from wrapper_ir_passes.collectives.escapes import EscapeKind, escapes

_ALL_REDUCE = ("_c10d_functional::all_reduce", "_c10d_functional::all_reduce_")
_REDUCE_SCATTER = "_c10d_functional::reduce_scatter_tensor"
_ALL_GATHER = "_c10d_functional::all_gather_into_tensor"
_DTYPES = (ir.DType.F32, ir.DType.BF16)
"""Dtypes that torch's kernels can sum (`CUDASymmetricMemoryOps.cu`)."""
_ALIGNMENT = 16
"""Bytes that these kernels load at once."""
_SCATTER_WORLDS = (2, 4, 8)
"""Group sizes for which torch has compiled the kernel of `reduce_scatter_out`; others raise an error."""


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveChoice:
    """The chosen form of one collective, with the reason.

    `why` is the reason against symmetric memory, or the origin of its operand.
    """

    function: str
    position: int
    op: ir.CollectiveStart
    form: Form
    why: str
    storage: ir.Value | None = None
    """The storage of the operand that itself becomes symmetric memory; None if the operand is copied."""

    def __str__(self) -> str:
        name = self.op.target.partition("::")[2]
        return (
            f"@{self.function} op {self.position} %{self.op.results[0].name} = {name} in group "
            f"{self.op.group!r}: {self.form.value}, {self.why}"
        )


def collective_choices(
    function: ir.Function, analyses: Analyses, limits: Limits
) -> Iterator[CollectiveChoice]:
    """The choice of each collective that a function starts, in order; the function has no frees."""
    chooser = _Function(function, analyses, limits)
    for position, op in function.positions_of(ir.CollectiveStart):
        yield chooser.choice(position, op)


class _Function:
    def __init__(self, function: ir.Function, analyses: Analyses, limits: Limits) -> None:
        self.function, self.analyses, self.limits = function, analyses, limits
        self.aliasing = analyses.aliasing(function)
        self.crossing = analyses.get_for(function, crossing_streams)
        self.allocations: dict[ir.Value, ir.AllocStorage] = {
            op.result: op for op in function.ops_of(ir.AllocStorage)
        }

    def choice(self, position: int, op: ir.CollectiveStart) -> CollectiveChoice:
        form, why = self.form(op)
        if not form.is_kernel:
            return CollectiveChoice(self.function.name, position, op, form, why)
        tensor = operand_of(op)
        refused = self.refused_storage(op, tensor, position) or self.refused_write(op, form, tensor, position)
        why = f"over a copy: {refused}" if refused else f"over %{self.root(tensor).name} itself"
        storage = None if refused else self.root(tensor)
        return CollectiveChoice(self.function.name, position, op, form, why, storage)

    def form(self, op: ir.CollectiveStart) -> tuple[Form, str]:
        """Returns the best form that the collective alone allows, and the reason against better ones."""
        if op.target not in (*_ALL_REDUCE, _REDUCE_SCATTER, _ALL_GATHER):
            return (
                Form.LIBRARY,
                "torch has no such operator over symmetric memory that works without multicast",
            )
        tensor = operand_of(op)
        why = why_not_shared(op, self.function, self.limits) or self.refused_sum(op, tensor)
        if why:
            return Form.LIBRARY, why
        nbytes = as_int(ir.extent_bytes(tensor.type))
        assert nbytes is not None  # `why_not_shared` refuses others
        if op.target in _ALL_REDUCE:
            if nbytes <= self.limits.one_shot:
                return Form.ONE_SHOT, ""
            if nbytes <= self.limits.two_shot:
                return Form.TWO_SHOT, ""
            limit = max(self.limits.one_shot, self.limits.two_shot)
            return Form.LIBRARY, f"{nbytes} bytes are more than {limit}"
        if op.target == _ALL_GATHER:
            return self.by_copy_engines(Form.ALL_GATHER, nbytes, "")
        why = self.refused_scatter(op, nbytes)
        return self.by_copy_engines(Form.REDUCE_SCATTER, nbytes, why) if why else (Form.ONE_SHOT_SCATTER, "")

    def by_copy_engines(self, form: Form, nbytes: int, why: str) -> tuple[Form, str]:
        """A gather or scatter that is not one kernel, for the reason `why`."""
        limit = self.limits.low_contention
        if nbytes <= limit:
            return form, "over memory of the operator's own"
        return Form.LIBRARY, why or f"{nbytes} bytes are more than {limit}"

    def refused_scatter(self, op: ir.CollectiveStart, nbytes: int) -> str:
        """Returns the reason why a reduce-scatter of this size is not one kernel; '' if it may be."""
        if nbytes > self.limits.one_shot_scatter:
            return f"{nbytes} bytes are more than {self.limits.one_shot_scatter}"
        size = group_size(op, self.analyses)
        if size not in _SCATTER_WORLDS:
            return f"torch has no such kernel for {arguments_of(op, self.analyses)['group_size']} processes"
        if nbytes % (size * _ALIGNMENT):
            return f"{nbytes} bytes are not a multiple of {size} times {_ALIGNMENT}"
        return ""

    def refused_sum(self, op: ir.CollectiveStart, tensor: ir.Value[ir.TensorType]) -> str:
        """Returns the reason why the kernels accept neither the operand nor a copy of it; '' if they do."""
        arguments = arguments_of(op, self.analyses)
        if arguments.get("reduce_op", "sum") != "sum":
            return f"reduction {arguments['reduce_op']!r} is not a sum"
        if "reduce_op" in arguments and tensor.type.dtype not in _DTYPES:
            return f"{tensor.type.dtype.value} is not summed there"
        nbytes = as_int(ir.extent_bytes(tensor.type))
        if nbytes is None or nbytes % _ALIGNMENT:
            return f"{nbytes} bytes are not a multiple of {_ALIGNMENT}"
        return ""

    def root(self, tensor: ir.Value) -> ir.Value:
        return self.aliasing.roots.get(tensor, (tensor,))[0]

    def refused_storage(self, op: ir.CollectiveStart, tensor: ir.Value[ir.TensorType], position: int) -> str:
        """Returns the reason why the operand's own storage cannot be symmetric memory; '' if it can."""
        roots = self.aliasing.roots.get(tensor, NO_ROOTS)
        allocation = self.allocations.get(roots[0]) if len(roots) == 1 else None
        if allocation is None:
            return origin_of(tensor, roots, self.function, self.analyses)
        why = why_storage_stays(allocation, self.crossing)
        if why:
            return why
        if allocation.result.type.nbytes != ir.extent_bytes(tensor.type):
            return f"%{tensor.name} is a part of %{allocation.result.name}"
        return self.escapes(op, allocation.result, position)

    def refused_write(
        self, op: ir.CollectiveStart, form: Form, tensor: ir.Value[ir.TensorType], position: int
    ) -> str:
        """Returns the reason why a kernel that overwrites its operand cannot receive the operand itself; ''
        if it can.
        """
        if not form.writes_operand or _works_in_place(op):
            return ""
        roots = self.aliasing.roots
        later = (v for other in self.function.body[position + 1 :] for v in ir.operands(other))
        reader = next((v for v in later if self.root(tensor) in roots.get(v, NO_ROOTS)), None)
        return "" if reader is None else f"%{reader.name} is used later, and the kernel writes there"

    def escapes(self, op: ir.CollectiveStart, storage: ir.Value, position: int) -> str:
        """Returns an op that passes the storage on before the collective, or creates a view that is used
        afterwards and cannot be created again.
        """
        for escape in escapes(self.function, self.analyses, storage):
            stays = escape.position < position or not _works_in_place(op)
            if escape.kind is EscapeKind.OUTPUT and not stays:
                continue
            if escape.kind is EscapeKind.COLLECTIVE and (not stays or escape.position == position):
                continue
            return escape.why
        return ""


def _works_in_place(op: ir.CollectiveStart) -> bool:
    """Returns whether the sum replaces the operand, so that later ops use the sum's storage."""
    return op.target == _ALL_REDUCE[1]
