"""Translation validation: checks that a transformed program does the same as the original.

Both programs are run symbolically. Every write gives its bytes a number for their origin: the op, its
attributes and the numbers of everything it read. Two programs agree if their observable numbers do: results,
final contents of arguments and constants, and every effect beyond memory, in order. Then each relevant read
saw the same last write. Names, storages, offsets, lifetimes and dead ops make no difference.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import NO_ROOTS
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.places import tensor_places
from wrapper_ir.errors import PassError
from wrapper_ir.expr import Expr, Int, mul
from wrapper_ir.expr.rewrite import map_atoms
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_passes.written_parts import Number, Part, WrittenParts

_SILENT = frozenset({ir.EffectClass.CHECK})


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The first observable difference in a function."""

    function: str
    what: str


def check_translation(before: Analyses, after: Analyses, name: str) -> None:
    """Raises PassError WIR805 naming the pass if the programs behave differently.

    Checks and debug ops may differ; all other observable behaviour must be the same.
    """
    difference = _difference(before, after)
    if difference is not None:
        raise PassError("WIR805", f"pass {name} changed what @{difference.function} does: {difference.what}")


def compare(before: ir.Program, after: ir.Program) -> Difference | None:
    """Returns the first difference between two valid programs, None if they behave alike."""
    return _difference(Analyses(before), Analyses(after))


@paused_collection()
def _difference(old: Analyses, new: Analyses) -> Difference | None:
    numbers: dict[Hashable, Number] = {}
    for name, function in new.functions.items():
        original = old.functions.get(name)
        if original is None:
            return Difference(name, "it is new")
        old_params, new_params = _owned(original), _owned(function)
        if function is new.program.main and old_params != new_params:
            return Difference(name, "it owns other parameters")
        if _zeroed_once(function) > _zeroed_once(original):
            return Difference(name, "more storages are to keep their zeros from call to call")
        first = _Run(original, old, numbers).observe(old_params | new_params)
        second = _Run(function, new, numbers).observe(old_params | new_params)
        if first != second:
            return Difference(name, _describe(first, second))
    return None


def _owned(function: ir.Function) -> set[int]:
    return {i for i, p in enumerate(_params(function)) if p.ownership is ir.Ownership.OWNED}


def _zeroed_once(function: ir.Function) -> int:
    return sum(op.zero is ir.ZeroMode.ONCE for op in function.ops_of(ir.AllocStorage))


def _params(function: ir.Function) -> list[ir.Param]:
    """The parameters that have content: storages passed by callers have none."""
    return [p for p in function.params if not ir.is_storage(p.value)]


def _describe(first: list[tuple[str, Number]], second: list[tuple[str, Number]]) -> str:
    for (what, a), (other, b) in zip(first, second):
        if what != other:
            return f"{what} before, {other} after"
        if a != b:
            return f"{what} sees or does something else"
    return f"{len(first)} observable things before, {len(second)} after"


class _Run:
    """One function, run symbolically. Equal keys get equal numbers, in both programs."""

    def __init__(self, function: ir.Function, analyses: Analyses, numbers: dict[Hashable, Number]) -> None:
        self.function = function
        self.analyses = analyses
        self.numbers = numbers
        self.aliasing = analyses.aliasing(function)
        self.places = analyses.get_for(function, tensor_places)
        self.contents: dict[ir.Value, WrittenParts] = defaultdict(WrittenParts)
        self.handles: dict[ir.Value, Number] = {}
        """Numbers of values that are not tensors."""
        self.symbols: dict[str, Number] = {}
        self.observed: list[tuple[str, Number]] = []

    def number(self, *key: Hashable) -> Number:
        return self.numbers.setdefault(key, len(self.numbers))

    def observe(self, ended: set[int]) -> list[tuple[str, Number]]:
        """Returns everything observable, in order.

        The final content of the parameters `ended` is excluded: callers move them, before or after the
        change.
        """
        params = [(f"parameter {i}", p.value) for i, p in enumerate(_params(self.function))]
        constants = [(f"constant %{c.value.name}", c) for c in self.analyses.program.constants]
        state = [(what, c.value) for what, c in constants if c.mutable]
        fixed = [(what, c.value) for what, c in constants if not c.mutable]
        for what, value in (*params, *state, *fixed):
            self.begin(value, self.number("input", what))
        for position, op in enumerate(self.function.body):
            self.step(op, self.aliasing.effects[position])
        visible = [p for i, p in enumerate(params) if i not in ended] + state
        for what, value in visible:
            if ir.is_tensor(value):
                self.observed.append((f"the final content of {what}", self.read(value)))
        return self.observed

    def begin(self, value: ir.Value, number: Number) -> None:
        """Sets the initial content of a value."""
        if ir.is_tensor(value):
            root, start = self.places.get(value, (value, Int(0)))
            self.contents[root].add(Part(start, ir.extent_bytes(value.type), number))
        else:
            self.handles[value] = number

    def step(self, op: ir.Op, effects: ir.Effects) -> None:
        match op:
            case ir.View() | ir.Free() | ir.Drop() | ir.Comment() | ir.DebugValue():
                return
            case ir.AllocStorage() | ir.Slot():
                parts = self.contents[op.result] = WrittenParts()
                if op.zero is not ir.ZeroMode.NONE:
                    parts.add(Part(Int(0), op.result.type.nbytes, self.number("zero")))
                return
            case ir.Define(symbol=symbol):
                sees = self.symbols[symbol] = self.sign(op, {*effects.reads})
            case ir.Return():
                sees = self.sign(op, {*effects.reads, *effects.moves})
                self.observed.append(("the return", sees))
            case _:
                sees = self.sign(op, {*effects.reads})
                if classes := sorted({c.value for c in effects.classes if c not in _SILENT}):
                    self.observed.append((f"{type(op).__name__} ({', '.join(classes)})", sees))
        for k, value in enumerate([v for v in effects.writes if not ir.is_storage(v)]):
            self.write(value, self.number("write", sees, k))
        match op:
            case ir.Unpack(result=result) if not ir.is_tensor(result):
                self.handles[result] = sees
                return
            case _:
                pass
        for k, value in enumerate(ir.results(op)):
            if value in self.aliasing.owned or not ir.is_tensor(value):
                self.begin(value, self.number("result", sees, k))
            elif value in self.aliasing.uncertain:
                self.contents[value].add(Part(Int(0), _extent(value), self.number("result", sees, k)))

    def sign(self, op: ir.Op, read: set[ir.Value]) -> Number:
        """Returns the number of an op: its attributes, and for each operand the content that it reads."""
        spec = ir.op_spec(type(op))
        fields: list[Hashable] = [type(op).__name__]
        operands = (*spec.operands, *spec.nested)
        fields += [self.key(f.get(op), read) for f in operands]
        fields += [
            f.get(op) for f in spec.fields if f not in (*operands, *spec.results) and f.name != "message"
        ]
        fields += [self.type_key(v) for v in ir.results(op)]
        return self.number(*fields)

    def key(self, x: object, read: set[ir.Value]) -> Hashable:
        match x:
            case tuple():
                return tuple([self.key(item, read) for item in x if not ir.is_storage(item)])
            case ir.Value():
                return self.operand(x, x in read)
            case Expr():
                return self.expr_key(x, read)
            case _:
                return x

    def operand(self, value: ir.Value, content: bool) -> Hashable:
        if ir.is_tensor(value):
            return (self.type_key(value), self.read(value) if content else None)
        return self.handles.get(value)

    def expr_key(self, e: Expr, read: set[ir.Value]) -> Hashable:
        """The expression with its values numbered, and the numbers of its symbols."""
        symbols = tuple((s, self.symbols.get(s)) for s in sorted(e.free_symbols))
        if not e.free_atoms:
            return (e, symbols)
        values = tuple(self.operand(v, v in read) for v in ir.values_in(e, []))
        return (map_atoms(e, lambda _: Int(0), simplify=False), values, symbols)

    def type_key(self, value: ir.Value) -> Hashable:
        return None if ir.is_results(value) else value.type

    def read(self, value: ir.Value[ir.TensorType]) -> Number:
        """Returns the origin of the bytes under a tensor."""
        sources: list[Hashable] = []
        place = self.places.get(value)
        size = _extent(value)
        for root in self.aliasing.roots.get(value, NO_ROOTS):
            start = place[1] if place is not None and place[0] == root else None
            parts = self.contents[root]
            if start is None:
                sources += [(part.size, part.number) for part in parts.all()]
            else:
                visible = parts.visible(start, size, _layout(value))
                sources += [(part.start - start, part.size, part.number) for part in visible]
        return self.number("content", tuple(sources))

    def write(self, value: ir.Value, number: Number) -> None:
        place = self.places.get(value)
        for root in self.aliasing.roots.get(value, NO_ROOTS):
            if place is not None and place[0] == root and ir.is_tensor(value):
                self.contents[root].write(Part(place[1], _extent(value), number, _layout(value)))
            else:
                self.contents[root].add(Part(Int(0), _extent(value), number))


def _extent(value: ir.Value) -> Expr:
    return ir.extent_bytes(value.type) if ir.is_tensor(value) else Int(0)


def _layout(value: ir.Value[ir.TensorType]) -> Hashable:
    """The bytes of a tensor, counted from its first one; None if it has all up to its last one."""
    type = value.type
    dims = [d for d in zip(type.strides, type.sizes, strict=True) if d[1] != Int(1)]
    count: Expr = Int(1)
    while (at := next((i for i, (stride, _) in enumerate(dims) if stride == count), None)) is not None:
        count = mul(count, dims.pop(at)[1])
    return (type.sizes, type.strides, type.dtype.itemsize) if dims else None
