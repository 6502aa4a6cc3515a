"""Rewrites a program with other sizes, and its constants to match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.expr import Expr, as_int
from wrapper_ir_tools.debugger.minify.numbers import changed_type, number_of, with_numbers
from wrapper_ir_tools.debugger.minify.stubs import rebuilt


@dataclass
class _Rewriter:
    numbers: Mapping[int, int]
    values: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def value(self, value: ir.Value) -> ir.Value:
        mapping = self.values.get(value)
        if mapping is None:
            mapping = self.values[value] = ir.Value(value.name, self.type(value.type))
        return mapping

    def type(self, type: ir.Type) -> ir.Type:
        match type:
            case ir.TensorType():
                return changed_type(type, self.numbers)
            case ir.StorageType():
                return replace(type, nbytes=with_numbers(type.nbytes, self.numbers))
            case _:
                return type

    def expr(self, e: Expr) -> Expr:
        return ir.map_expr_values(with_numbers(e, self.numbers), self.value)


def resized(artifact: Artifact, numbers: Mapping[int, int]) -> Artifact | None:
    """Replaces the old numbers by the new ones; None if a changed constant shares its bytes."""
    rewriter, program = _Rewriter(numbers), artifact.program
    constants: list[ir.Constant] = []
    data: dict[str, TensorData] = {}
    for constant in program.constants:
        value = rewriter.value(constant.value)
        data_before = artifact.data_of(constant)
        changed = value != constant.value
        if changed and (constant.storage or data_before is None):
            # shared bytes, or no data
            return None
        if changed and data_before is not None:
            assert ir.is_tensor(value)
            assert ir.is_tensor(constant.value)
            cut = _corner(data_before, constant.value.type, value.type)
            if cut is None:
                return None
            data[value.name] = cut
            constant = replace(constant, data_hash=cut.sha256() if constant.data_hash else "")
        constants.append(replace(constant, value=value))
    functions = tuple(ir.map_function(f, rewriter.value, rewriter.expr) for f in program.functions)
    return rebuilt(artifact, replace(program, constants=tuple(constants), functions=functions), data)


def _corner(data: TensorData, old: ir.TensorType, new: ir.TensorType) -> TensorData | None:
    """The first elements in each dimension; None for a layout that is symbolic or larger than the data."""
    layouts = [(*map(number_of, t.sizes), *map(number_of, t.strides)) for t in (old, new)]
    if any(as_int(e) is None for t in (old, new) for e in (*t.sizes, *t.strides)):
        return None
    if any(b > a for a, b in zip(layouts[0], layouts[1][: len(new.sizes)])):
        return None
    item, rank = old.dtype.itemsize, len(new.sizes)
    source = data.buffer.cast("B")
    out = bytearray(number_of(ir.extent_bytes(new)))
    places = [(0, 0)]
    for dim in range(rank):
        steps = [layout[rank + dim] * item for layout in layouts]
        places = [(a + i * steps[0], b + i * steps[1]) for a, b in places for i in range(layouts[1][dim])]
    for a, b in places:
        out[b : b + item] = source[a : a + item]
    return TensorData(data.dtype, memoryview(bytes(out)))
