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
from wrapper_ir.expr import as_int
from wrapper_ir_passes.collectives.collective_operands import (
    Limits,
    arguments_of,
    group_size,
    operand_of,
    why_not_shared,
)
from wrapper_ir_passes.collectives.wait_motion import may_pass

GATHER = "_c10d_functional::all_gather_into_tensor"
SCATTER = "_c10d_functional::reduce_scatter_tensor"
_DTYPES = (ir.DType.F64, ir.DType.F32, ir.DType.F16, ir.DType.BF16)


@dataclasses.dataclass(frozen=True, slots=True)
class Matmul:
    """A matmul of two matrices with known sizes; `op` at `position` returns or writes `result`."""

    position: int
    op: ir.CallExtern
    rows: int
    """Rows of the left factor, and so of the result."""
    lhs: ir.Value[ir.TensorType]
    rhs: ir.Value[ir.TensorType]
    result: ir.Value[ir.TensorType]


@dataclasses.dataclass(frozen=True, slots=True)
class GatherFusion:
    """The gather `op` at `position` among `size` processes, and the matmuls of its result.

    One operator replaces them, right before the op `at`. Ops in between that use the gathered tensor are
    `delayed` until after it.
    """

    position: int
    op: ir.CollectiveStart
    size: int
    at: int
    delayed: tuple[int, ...]
    matmuls: tuple[Matmul, ...]

    def __str__(self) -> str:
        count = len(self.matmuls)
        return f"with {count} matmul{'s' if count > 1 else ''} of what it gathers"


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterFusion:
    """The reduce-scatter `op` at `position` among `size` processes, and the matmul of its operand.

    Nothing else reads the matmul.
    """

    position: int
    op: ir.CollectiveStart
    size: int
    matmul: Matmul

    def __str__(self) -> str:
        return f"with the matmul %{self.matmul.result.name}, which nothing else reads"


Fusion = GatherFusion | ScatterFusion | str
"""The ops that a collective is fused with, or the reason against it, as text."""


def fusion_of(
    position: int, op: ir.CollectiveStart, function: ir.Function, analyses: Analyses, limits: Limits
) -> Fusion:
    """Returns the fusion of a gather or reduce-scatter, or the reason against it.

    The function has no frees.
    """
    why = why_not_shared(op, function, limits)
    if why:
        return why
    tensor, finder = operand_of(op), _Finder(function, analyses)
    nbytes = as_int(ir.extent_bytes(tensor.type))
    assert nbytes is not None  # `why_not_shared` refuses others
    if nbytes < limits.fused:
        return f"{nbytes} bytes are fewer than {limits.fused}"
    if tensor.type.dtype not in _DTYPES:
        return f"{tensor.type.dtype.value} is not multiplied there"
    if finder.in_flight(position):
        return "another collective is in flight"
    size = group_size(op, analyses)
    if size is None:
        return f"the group's size {arguments_of(op, analyses)['group_size']} is known at run time only"
    return finder.gather(position, op, size) if op.target == GATHER else finder.scatter(position, op, size)


def root_set(values: Iterable[ir.Value], function: ir.Function, analyses: Analyses) -> frozenset[ir.Value]:
    """The roots of all these values."""
    roots = analyses.aliasing(function).roots
    return frozenset(root for value in values for root in roots.get(value, NO_ROOTS))


class _Finder:
    def __init__(self, function: ir.Function, analyses: Analyses) -> None:
        self.function, self.body, self.analyses = function, function.body, analyses
        self.aliasing = analyses.aliasing(function)
        self.places: Mapping[ir.Value, RootOffset] = analyses.get_for(function, tensor_places)
        matmuls = (self.matmul(at, op) for at, op in function.positions_of(ir.CallExtern))
        self.matmuls = {p.position: p for p in matmuls if p is not None}
        self.defined = {value: at for at, op in enumerate(self.body) for value in ir.results(op)}

    def roots(self, values: Iterable[ir.Value]) -> frozenset[ir.Value]:
        return root_set(values, self.function, self.analyses)

    def used(self, at: int) -> frozenset[ir.Value]:
        """The roots of all operands of an op."""
        return self.roots(ir.operands(self.body[at]))

    def changed(self, at: int) -> frozenset[ir.Value]:
        """The roots that an op writes, moves or ends; a wait changes nothing."""
        match self.body[at]:
            case ir.Wait():
                return frozenset()
            case _:
                effects = self.aliasing.effects[at]
                return self.roots((*effects.writes, *effects.moves, *effects.ends))

    def changes(self, values: Iterable[ir.Value], start: int, stop: int) -> bool:
        """Returns whether one of the ops from `start` to before `stop` changes one of these roots."""
        roots = self.roots(values)
        return any(not roots.isdisjoint(self.changed(at)) for at in range(start, stop))

    def matmul(self, at: int, op: ir.CallExtern) -> Matmul | None:
        """Returns the op as a matmul of two matrices of one dtype with known sizes."""
        if op.target not in ("aten::mm", "aten::mm.out") or op.stream:
            return None
        arguments = arguments_of(op, self.analyses)
        lhs, rhs = ir.as_tensor(arguments["self"]), ir.as_tensor(arguments["mat2"])
        result = ir.as_tensor(op.result if op.target == "aten::mm" else arguments["out"])
        types = lhs.type, rhs.type, result.type
        rows, *others = [as_int(n) for t in types for n in (*t.sizes, *t.strides)]
        if rows is None or None in others or not ir.is_contiguous(result.type.sizes, result.type.strides):
            return None
        is_uniform = len({(t.dtype, t.device) for t in types}) == 1
        return Matmul(at, op, rows, lhs, rhs, result) if is_uniform else None

    def in_flight(self, position: int) -> bool:
        """Returns whether an earlier collective is still in flight."""
        pending: set[ir.Value] = set()
        for op in self.body[:position]:
            match op:
                case ir.CollectiveStart(results=results):
                    pending |= self.roots(results)
                case ir.Wait(source=source):
                    pending -= self.roots((source,))
                case _:
                    pass
        return bool(pending)

    def is_whole(self, one: ir.Value[ir.TensorType], other: ir.Value[ir.TensorType]) -> bool:
        """Returns whether two contiguous tensors are the same bytes."""
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
                match self.factor(at, handle, size, matmuls):
                    case Matmul() as matmul:
                        matmuls.append(matmul)
                        names |= self.roots((matmul.result,))
                        operand_roots |= self.roots((matmul.rhs,))
                    case str() if not _is_name(self.body[at]):
                        break
                    case str():
                        pass
                delayed.append(at)
            elif not may_pass(self.body[at], self.analyses) or not operand_roots.isdisjoint(self.changed(at)):
                break
            at += 1
        whys = [self.add_later(later, at, handle, size, matmuls) for later in range(at, len(self.body))]
        if not matmuls:
            return next(filter(None, whys), f"%{handle.name} is not the left factor of a matmul")
        return GatherFusion(position, op, size, at, tuple(delayed), tuple(matmuls))

    def factor(
        self, at: int, handle: ir.Value[ir.TensorType], size: int, others: list[Matmul]
    ) -> Matmul | str:
        """Returns the matmul of the complete gathered tensor at `at`, or the reason against it."""
        matmul = self.matmuls.get(at)
        if matmul is None or not self.is_whole(matmul.lhs, handle):
            return ""
        dtype = handle.type.dtype
        if matmul.lhs.type.dtype is not dtype:
            return f"%{matmul.lhs.name} is not {dtype.value}"
        if matmul.rows % size:
            return (
                f"{matmul.rows} rows of %{matmul.lhs.name} are not the same number from each of {size} "
                "processes"
            )
        if others and others[0].lhs.type.sizes != matmul.lhs.type.sizes:
            return f"%{matmul.lhs.name} has other rows than %{others[0].lhs.name}"
        if not self.roots((matmul.rhs,)).isdisjoint(self.roots((handle,))):
            return f"%{matmul.rhs.name} is gathered, too"
        return matmul

    def add_later(
        self, at: int, start: int, handle: ir.Value[ir.TensorType], size: int, matmuls: list[Matmul]
    ) -> str:
        """Adds the op at `at` to the matmuls if it can be computed before the op at `start`; otherwise
        returns the reason.
        """
        match self.factor(at, handle, size, matmuls):
            case str() as why:
                return why
            case matmul:
                roots = self.aliasing.roots.get(matmul.rhs, NO_ROOTS)
        if len(roots) != 1 or matmul.rhs not in self.places:
            return f"it is not known where %{matmul.rhs.name} lies"
        late = self.defined.get(roots[0], -1) >= start or roots[0] in self.roots(p.result for p in matmuls)
        if late or self.changes((matmul.rhs, handle), start, at):
            return f"%{matmul.rhs.name} is ready only after %{handle.name} is needed"
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
        if matmul.rows % size:
            return (
                f"{matmul.rows} rows of %{matmul.result.name} are not the same number for each of {size} "
                "processes"
            )
        if self.changes((matmul.lhs, matmul.rhs), matmul.position + 1, position):
            return f"a factor of %{matmul.result.name} is changed before"
        return self.other_use(matmul, position, roots) or ScatterFusion(position, op, size, matmul)

    def other_use(self, matmul: Matmul, position: int, roots: tuple[ir.Value, ...]) -> str:
        """Returns another use of the matmul besides the collective."""
        purposes = {op.purpose for op in self.function.ops_of(ir.AllocStorage) if op.result in roots}
        is_result = any(op.result in roots for op in self.function.ops_of(ir.CallExtern))
        if purposes - {ir.AllocPurpose.PLAIN} or not (purposes or is_result):
            return f"%{matmul.result.name} is not in memory of its own"
        for at, op in enumerate(self.body):
            match op:
                case ir.Slot():
                    is_other = True
                case ir.AssertLayout() | ir.View():
                    is_other = False
                case _:
                    is_other = at > matmul.position and at != position
            if is_other and not self.used(at).isdisjoint(roots):
                return f"%{matmul.result.name} is used by op {at}, too"
        return ""


def _is_name(op: ir.Op) -> bool:
    """Returns whether an op only creates another name of the gathered tensor, or checks its layout."""
    match op:
        case ir.AssertLayout() | ir.Wait() | ir.View(mode=ir.ViewMode.ALIAS):
            return True
        case _:
            return False
