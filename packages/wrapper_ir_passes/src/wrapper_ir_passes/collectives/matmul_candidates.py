"""Matmuls that can be one operator with a collective.

The collective returns their left factor, or takes their result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import RootOffset, tensor_places
from wrapper_ir.expr import Int
from wrapper_ir_passes.collectives.collective_operands import Limits, arguments_of, operand_of, why_not_shared
from wrapper_ir_passes.collectives.wait_motion import may_pass

GATHER = "_c10d_functional::all_gather_into_tensor"
SCATTER = "_c10d_functional::reduce_scatter_tensor"
_DTYPES = (ir.DType.F64, ir.DType.F32, ir.DType.F16, ir.DType.BF16)


@dataclasses.dataclass(frozen=True, slots=True)
class Matmul:
    """A matmul of two matrices; the op at `position` returns or writes `result`."""

    position: int
    left: ir.Value[ir.TensorType]
    right: ir.Value[ir.TensorType]
    result: ir.Value[ir.TensorType]


@dataclasses.dataclass(frozen=True, slots=True)
class GatherFusion:
    """A gather at `position` and the matmuls of its result.

    One operator replaces them, right before the op `at`. Ops in between that use the gathered tensor are
    `held` back until after it.
    """

    position: int
    at: int
    held: tuple[int, ...]
    matmuls: tuple[Matmul, ...]

    def __str__(self) -> str:
        count = len(self.matmuls)
        return f"with {count} matmul{'s' if count > 1 else ''} of what it gathers"


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterFusion:
    """A reduce-scatter at `position`, and the matmul of its operand, which nothing else reads."""

    position: int
    matmul: Matmul

    def __str__(self) -> str:
        return f"with the matmul %{self.matmul.result.name}, which nothing else reads"


Fusion = GatherFusion | ScatterFusion | str
"""The ops that a collective is fused with, or the reason against it, as text."""


def fusion_of(position: int, function: ir.Function, analyses: Analyses, limits: Limits) -> Fusion:
    """Returns the fusion of a gather or reduce-scatter, or the reason against it.

    The function has no frees.
    """
    op = function.body[position]
    assert isinstance(op, ir.CollectiveStart)
    why = why_not_shared(op, function, limits)
    if why:
        return why
    tensor, finder = operand_of(op), _Finder(function, analyses)
    nbytes = ir.extent_bytes(tensor.type)
    assert isinstance(nbytes, Int)
    if nbytes.value < limits.fused:
        return f"{nbytes.value} bytes are fewer than {limits.fused}"
    if tensor.type.dtype not in _DTYPES:
        return f"{tensor.type.dtype.value} is not multiplied there"
    if finder.in_flight(position):
        return "another collective is in flight"
    size = arguments_of(op, analyses)["group_size"]
    if not isinstance(size, Int):
        return f"the group's size {size} is known at run time only"
    return (
        finder.gather(position, op, size.value)
        if op.target == GATHER
        else finder.scatter(position, op, size.value)
    )


def root_set(values: Iterable[ir.Value], function: ir.Function, analyses: Analyses) -> frozenset[ir.Value]:
    """The roots of all these values."""
    roots = analyses.aliasing(function).roots
    return frozenset(root for value in values for root in roots.get(value, NO_ROOTS))


class _Finder:
    def __init__(self, function: ir.Function, analyses: Analyses) -> None:
        self.function, self.body, self.analyses = function, function.body, analyses
        self.aliasing = analyses.aliasing(function)
        self.places: Mapping[ir.Value, RootOffset] = analyses.get_for(function, tensor_places)
        matmuls = (self.matmul(at, op) for at, op in enumerate(self.body))
        self.matmuls = {p.position: p for p in matmuls if p is not None}
        self.defined = {value: at for at, op in enumerate(self.body) for value in ir.results(op)}

    def roots(self, values: Iterable[ir.Value]) -> frozenset[ir.Value]:
        return root_set(values, self.function, self.analyses)

    def used(self, at: int) -> frozenset[ir.Value]:
        """The roots of all operands of an op."""
        return self.roots(ir.operands(self.body[at]))

    def changed(self, at: int) -> frozenset[ir.Value]:
        """The roots that an op writes, moves or ends; a wait changes nothing."""
        if isinstance(self.body[at], ir.Wait):
            return frozenset()
        effects = self.aliasing.effects[at]
        return self.roots((*effects.writes, *effects.moves, *effects.ends))

    def changes(self, values: Iterable[ir.Value], start: int, stop: int) -> bool:
        """Whether one of the ops from `start` to before `stop` changes one of these roots."""
        roots = self.roots(values)
        return any(not roots.isdisjoint(self.changed(at)) for at in range(start, stop))

    def matmul(self, at: int, op: ir.Op) -> Matmul | None:
        """Returns the op as a matmul of two matrices of one dtype with known sizes."""
        if not isinstance(op, ir.CallExtern) or op.target not in ("aten::mm", "aten::mm.out") or op.stream:
            return None
        arguments = arguments_of(op, self.analyses)
        left, right = ir.as_tensor(arguments["self"]), ir.as_tensor(arguments["mat2"])
        result = ir.as_tensor(op.result if op.target == "aten::mm" else arguments["out"])
        types = left.type, right.type, result.type
        is_static = all(isinstance(n, Int) for t in types for n in (*t.sizes, *t.strides))
        if not is_static or not ir.is_contiguous(result.type.sizes, result.type.strides):
            return None
        return Matmul(at, left, right, result) if len({(t.dtype, t.device) for t in types}) == 1 else None

    def in_flight(self, position: int) -> bool:
        """Whether an earlier collective is still in flight."""
        pending: set[ir.Value] = set()
        for op in self.body[:position]:
            if isinstance(op, ir.CollectiveStart):
                pending |= self.roots(op.results)
            elif isinstance(op, ir.Wait):
                pending -= self.roots((op.source,))
        return bool(pending)

    def is_whole(self, one: ir.Value[ir.TensorType], other: ir.Value[ir.TensorType]) -> bool:
        """Whether two contiguous tensors are the same bytes."""
        place = self.places.get(one)
        same = place is not None and place == self.places.get(other) and len(self.aliasing.roots[one]) == 1
        contiguous = all(ir.is_contiguous(v.type.sizes, v.type.strides) for v in (one, other))
        return same and contiguous and ir.extent_bytes(one.type) == ir.extent_bytes(other.type)

    # --- a gather and matmuls of its result

    def gather(self, position: int, op: ir.CollectiveStart, size: int) -> GatherFusion | str:
        """Returns the fusion of a gather, at the first use of its result: the other factors may be computed
        meanwhile.
        """
        (handle,) = op.results
        gathered, operand_roots = self.roots((handle,)), self.roots((operand_of(op),))
        names: frozenset[ir.Value] = frozenset()
        delayed: list[int] = []
        matmuls: list[Matmul] = []
        at = position + 1
        while at < len(self.body):
            uses = self.used(at)
            if not uses.isdisjoint(names):
                break
            if not uses.isdisjoint(gathered):
                matmul = self.factor(at, handle, size, matmuls)
                if isinstance(matmul, Matmul):
                    matmuls.append(matmul)
                    names |= self.roots((matmul.result,))
                    operand_roots |= self.roots((matmul.right,))
                elif not _is_name(self.body[at]):
                    break
                delayed.append(at)
            elif not may_pass(self.body[at], self.analyses) or not operand_roots.isdisjoint(self.changed(at)):
                break
            at += 1
        whys = [self.add_later(later, at, handle, size, matmuls) for later in range(at, len(self.body))]
        if not matmuls:
            return next(filter(None, whys), f"%{handle.name} is not the left factor of a matmul")
        return GatherFusion(position, at, tuple(delayed), tuple(matmuls))

    def factor(
        self, at: int, handle: ir.Value[ir.TensorType], size: int, others: list[Matmul]
    ) -> Matmul | str:
        """Returns the matmul of the complete gathered tensor at `at`, or the reason against it."""
        matmul = self.matmuls.get(at)
        if matmul is None or not self.is_whole(matmul.left, handle):
            return ""
        (rows, _), dtype = matmul.left.type.sizes, handle.type.dtype
        if matmul.left.type.dtype is not dtype:
            return f"%{matmul.left.name} is not {dtype.value}"
        assert isinstance(rows, Int)
        if rows.value % size:
            return f"{rows} rows of %{matmul.left.name} are not the same number from each of {size} processes"
        if others and others[0].left.type.sizes != matmul.left.type.sizes:
            return f"%{matmul.left.name} has other rows than %{others[0].left.name}"
        if not self.roots((matmul.right,)).isdisjoint(self.roots((handle,))):
            return f"%{matmul.right.name} is gathered, too"
        return matmul

    def add_later(
        self, at: int, start: int, handle: ir.Value[ir.TensorType], size: int, matmuls: list[Matmul]
    ) -> str:
        """Adds the op at `at` to the matmuls if it can be computed before the op at `start`; otherwise
        returns the reason.
        """
        matmul = self.factor(at, handle, size, matmuls)
        if isinstance(matmul, str):
            return matmul
        roots = self.aliasing.roots.get(matmul.right, NO_ROOTS)
        if len(roots) != 1 or matmul.right not in self.places:
            return f"it is not known where %{matmul.right.name} lies"
        late = self.defined.get(roots[0], -1) >= start or roots[0] in self.roots(p.result for p in matmuls)
        if late or self.changes((matmul.right, handle), start, at):
            return f"%{matmul.right.name} is ready only after %{handle.name} is needed"
        matmuls.append(matmul)
        return ""

    # --- a matmul that is scattered

    def scatter(self, position: int, op: ir.CollectiveStart, size: int) -> ScatterFusion | str:
        """Returns the fusion of a reduce-scatter, whose whole operand must be a matmul without other uses."""
        tensor, arguments = operand_of(op), arguments_of(op, self.analyses)
        if arguments["reduce_op"] not in ("sum", "avg"):
            return f"reduction {arguments['reduce_op']!r} is neither a sum nor a mean"
        roots = self.aliasing.roots.get(tensor, NO_ROOTS)
        makers = [at for at in range(position) if not self.changed(at).isdisjoint(roots)]
        makers += [self.defined[root] for root in roots if root in self.defined]
        matmul = self.matmuls.get(max(makers, default=-1))
        if matmul is None or not self.is_whole(matmul.result, tensor):
            return f"%{tensor.name} is not the result of a matmul"
        rows = matmul.result.type.sizes[0]
        assert isinstance(rows, Int)
        if rows.value % size:
            return (
                f"{rows} rows of %{matmul.result.name} are not the same number for each of {size} processes"
            )
        if self.changes((matmul.left, matmul.right), matmul.position + 1, position):
            return f"a factor of %{matmul.result.name} is changed before"
        return self.other_use(matmul, position, roots) or ScatterFusion(position, matmul)

    def other_use(self, matmul: Matmul, position: int, roots: tuple[ir.Value, ...]) -> str:
        """Returns another use of the matmul besides the collective."""
        allocations = [
            op
            for op in self.body
            if isinstance(op, ir.AllocStorage | ir.CallExtern) and {*ir.results(op)} & {*roots}
        ]
        plain = all(
            not isinstance(op, ir.AllocStorage) or op.purpose is ir.AllocPurpose.PLAIN for op in allocations
        )
        if not allocations or not plain:
            return f"%{matmul.result.name} is not in memory of its own"
        for at, op in enumerate(self.body):
            later = at > matmul.position and at != position and not isinstance(op, ir.AssertLayout)
            if not self.used(at).isdisjoint(roots) and (
                isinstance(op, ir.Slot) or (later and not isinstance(op, ir.View))
            ):
                return f"%{matmul.result.name} is used by op {at}, too"
        return ""


def _is_name(op: ir.Op) -> bool:
    """Whether an op only creates another name of the gathered tensor, or checks its layout."""
    return isinstance(op, ir.AssertLayout | ir.Wait) or (
        isinstance(op, ir.View) and op.mode is ir.ViewMode.ALIAS
    )
