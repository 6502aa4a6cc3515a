"""Memory that is created when a program is loaded: bytes that constants share, and windows of constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, evaluate
from wrapper_ir_lowering.plan import ConstantBytes, ConstantWindow


def shared_bytes(program: ir.Program) -> tuple[ConstantBytes, ...]:
    """Returns the bytes that constants share, by name, with their number."""
    shared: dict[str, ConstantBytes] = {}
    for constant in program.constants:
        type = constant.value.type
        if constant.storage and isinstance(type, ir.TensorType):
            end = constant.offset + int(evaluate(ir.extent_bytes(type), {}))
            earlier = shared.get(constant.storage)
            need, first = (earlier.nbytes, earlier.constant) if earlier is not None else (0, constant)
            shared[constant.storage] = ConstantBytes(
                name=constant.storage, nbytes=max(need, end), constant=first
            )
    return tuple(shared.values())


def reads_files(program: ir.Program) -> bool:
    """Returns whether calls read constants directly from a file."""
    return any(
        not c.mutable and ir.is_tensor(c.value) and c.value.type.device.type == "cpu"
        for c in program.constants
    )


def used_constants(function: ir.Function, analyses: Analyses) -> tuple[ir.Value[ir.Type], ...]:
    """The constants that a function or its callees use."""
    constants: dict[ir.Value[ir.Type], None] = {}
    waiting, visited = [function.name], {function.name}
    while waiting:
        body = analyses.functions[waiting.pop()].body
        for op in body:
            constants.update(dict.fromkeys(v for v in ir.operands(op) if v in analyses.constant_values))
            new = [c for c in ir.callees(op) if c not in visited and c in analyses.functions]
            waiting += new
            visited.update(new)
    return tuple(constants)


class HoistedWindows:
    """Windows of constants of fixed sizes, each created once.

    Windows that a caller may come to hold are excluded: changes to such a tensor object must not be visible
    to the next call.
    """

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses
        self._numbers: dict[tuple[ir.Value[ir.Type] | int, ir.TensorType, Expr], int] = {}
        self.windows: list[ConstantWindow] = []

    def add(self, function: ir.Function) -> Mapping[ir.Value[ir.Type], int]:
        """Adds a function.

        Returns the numbers of its windows of constants, by the values that they replace.
        """
        numbers: dict[ir.Value[ir.Type], int] = {}
        candidates = [op for op in function.body if _is_fixed(op)]
        if not candidates or not self._analyses.constant_values:
            return numbers
        resized = {op.target for op in function.ops_of(ir.ResizeStorage, ir.SetStorage)}
        shared = resized | self._handed_on(function)
        for op in candidates:
            is_constant = op.source in self._analyses.constant_values
            source = op.source if is_constant else numbers.get(op.source)
            if source is not None and op.source not in resized and op.result not in shared:
                numbers[op.result] = self._number(op, source)
        return numbers

    def _number(self, op: ir.View, source: ir.Value[ir.Type] | int) -> int:
        key = (source, op.result.type, op.offset)
        if key not in self._numbers:
            self._numbers[key] = len(self.windows)
            self.windows.append(_window(op, source))
        return self._numbers[key]

    def _handed_on(self, function: ir.Function) -> set[ir.Value[ir.Type]]:
        """Returns views that are returned, or that results may alias."""
        views: set[ir.Value[ir.Type]] = set()
        results: set[ir.Value[ir.Type]] = set()
        for op in function.body:
            match op:
                case ir.View():
                    if op.source in self._analyses.constant_values or op.source in views:
                        views.add(op.result)
                case ir.Return():
                    results.update(ir.operands(op))
                case _ if views and not views.isdisjoint(ir.operands(op)):
                    effects = self._analyses.effects(op)
                    results.update(source for _, source in (*effects.aliases, *effects.may_alias))
                case _:
                    pass
        return results


def _is_fixed(op: ir.Op) -> TypeGuard[ir.View]:
    return (
        isinstance(op, ir.View)
        and op.mode is ir.ViewMode.ALIAS
        and all(e.integer is not None for e in (*op.result.type.sizes, *op.result.type.strides, op.offset))
    )


def _window(op: ir.View, source: ir.Value[ir.Type] | int) -> ConstantWindow:
    assert ir.is_tensor(op.source)
    at = op.offset.integer
    assert at is not None  # `_is_fixed` has checked it
    if op.source.type.dtype is op.result.type.dtype and not at % op.result.type.dtype.itemsize:
        at //= op.result.type.dtype.itemsize
        return ConstantWindow(result=op.result, source=source, offset=at, in_bytes=False)
    return ConstantWindow(result=op.result, source=source, offset=at, in_bytes=True)
