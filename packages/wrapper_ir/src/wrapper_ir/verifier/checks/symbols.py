"""Checks that symbols are declared, and defined once before their uses, and that expressions have the right
kind and read values only in `define`."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, SymKind
from wrapper_ir.expr.partial import without_value
from wrapper_ir.expr.ranges import bounds
from wrapper_ir.expr.width import width
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_INT64, _MAX_WIDTH = 64, 1 << 16
_EVALUATED = (ir.AllocStorage, ir.Slot, ir.View)
"""Ops that evaluate their result's type; the results of other ops may have symbols that are defined from
them."""


class Symbols(Check):
    """WIR030 to WIR036, WIR015 and WIR209."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.declared = facts.analyses.symbols
        self.defined: set[str] = set()
        self.pending: dict[str, int] = {}
        """Symbols in the type of a result that must still be defined from it, by position."""
        self.inspected: set[Expr] = set()
        self.settled: set[int] = set()
        """Ids of the facts about types whose symbols are all defined; the table keeps the facts alive."""
        self.widths: dict[str, int] = {}
        """Bits of the symbols that may exceed an int64; without a limit, chains of definitions grow
        exponentially."""
        for name in facts.function.captures:
            if name in self.defined:
                self.report("WIR032", f"{name} is captured twice")
            elif name not in self.declared:
                self.report("WIR030", f"{name} is captured, but not declared")
            self.defined.add(name)
        for param in facts.function.params:
            for e in facts.types(param.value.type).exprs:
                self.inspect(-1, e)

    def every(self) -> Handler | None:
        return self.op if self.facts.symbolic else None

    def handlers(self) -> Handlers:
        call = self.call
        return {
            ir.Define: self.define,
            ir.View: self.offset,
            ir.Slot: self.offset,
            ir.Launch: self.launch,
            ir.AssertExpr: self.condition,
            ir.AssertLayout: self.layout,
            ir.ResizeStorage: self.resize,
            ir.Return: self.results,
            ir.Switch: call,
            ir.WhileLoop: call,
            ir.CallSubgraph: call,
        }

    def op(self, position: int, op: ir.Op) -> None:
        exprs = self.facts.scanned[position][1]
        if exprs and not isinstance(op, ir.Define):
            for e in exprs:
                if e.free_atoms:
                    self.report("WIR033", "only define may look at values", position)
                self.use(position, e)
        for _, info in self.facts.special.get(position, ()):
            if info.exprs and id(info) not in self.settled:
                self.result(position, op, info.exprs)
                if all(e.free_symbols <= self.defined and not e.free_atoms for e in info.exprs):
                    self.settled.add(id(info))

    def result(self, position: int, op: ir.Op, exprs: tuple[Expr, ...]) -> None:
        is_evaluated = isinstance(op, _EVALUATED)
        for e in exprs:
            if e.free_atoms:
                self.report("WIR033", "a type may not look at values", position)
            if is_evaluated:
                self.use(position, e)
                continue
            self.inspect(position, e)
            for name in e.free_symbols - self.defined:
                self.pending.setdefault(name, position)

    def use(self, position: int, e: Expr) -> None:
        self.inspect(position, e)
        if not e.free_symbols <= self.defined:
            for name in sorted(e.free_symbols - self.defined):
                self.report("WIR031", f"{name} is used before it is defined", position)

    def inspect(self, position: int, e: Expr) -> None:
        """Checks the value of `e`, and the names and kinds of its symbols; once for each expression."""
        if e in self.inspected:
            return
        self.inspected.add(e)
        if e.args:
            if e.kind is SymKind.INT:
                self.int64(position, e)
            if (part := without_value(e)) is not None:
                self.report("WIR209", f"{part} has no value", position)
        stack = [e]
        while stack:
            node = stack.pop()
            stack.extend(node.args)
            if node.symbol is not None:
                symbol = self.declared.get(node.symbol)
                if symbol is None:
                    self.report("WIR030", f"{node.symbol} is not declared", position)
                elif symbol.kind is not node.kind:
                    message = f"{node.symbol} is declared as {symbol.kind}, used as {node.kind}"
                    self.report("WIR034", message, position)

    def int64(self, position: int, e: Expr) -> None:
        range_ = bounds(e, {})
        if range_.low > _GREATEST or range_.high < _LEAST:
            self.report("WIR015", f"{e} is not an int64", position)

    def constant(self, position: int, e: object) -> None:
        """Requires that a constant is an int64. Only operators accept other constants."""
        if isinstance(e, Int):
            self.int64(position, e)

    def results(self, position: int, op: ir.Return) -> None:
        for value in op.values:
            self.constant(position, value)

    def define(self, position: int, op: ir.Define) -> None:
        name, e = op.symbol, op.expr
        symbol = self.declared.get(name)
        if symbol is None:
            self.report("WIR030", f"{name} is not declared", position)
        elif symbol.kind is not e.kind:
            self.report("WIR034", f"{name} is declared as {symbol.kind}, its value is {e.kind}", position)
        if name in self.defined:
            self.report("WIR032", f"{name} is defined already", position)
        self.use(position, e)
        self.constant(position, e)
        self.atoms(position, e)
        bits = width(e, self.widths)
        if bits > _MAX_WIDTH:
            self.report("WIR015", f"{name} may have {bits} bits, and an int64 has 64", position)
        elif bits > _INT64:
            self.widths[name] = bits
        if name in self.pending:
            del self.pending[name]
            if not any(name in ir.type_symbols(v.type) for v in ir.free_values(e)):
                message = f"{name} must be defined from the result whose type mentions it"
                self.report("WIR031", message, position)
        self.defined.add(name)

    def atoms(self, position: int, e: Expr) -> None:
        stack = [e] if e.free_atoms else []
        while stack:
            node = stack.pop()
            match node:
                case ir.SizeOf(value, dim) | ir.StrideOf(value, dim):
                    if not ir.is_tensor(value) or not 0 <= dim < len(value.type.sizes):
                        self.report("WIR036", f"%{value.name} has no dimension {dim}", position)
                case ir.OffsetOf(value) if not ir.is_tensor(value):
                    self.report("WIR036", f"%{value.name} is not a tensor, so has no offset", position)
                case ir.Item(value) if not _has_item(value):
                    self.report("WIR036", f"%{value.name} is neither a number nor a tensor of one", position)
                case _:
                    pass
            stack.extend(node.args)

    def offset(self, position: int, op: ir.View | ir.Slot) -> None:
        if op.offset.__class__ is not Int:
            self.ints(position, (op.offset,))

    def launch(self, position: int, op: ir.Launch) -> None:
        for arg in op.args:
            self.constant(position, arg)
        if op.extents or op.grid:
            self.ints(position, (*op.extents, *op.grid))

    def condition(self, position: int, op: ir.AssertExpr) -> None:
        if op.condition.kind is not SymKind.BOOL:
            self.report("WIR034", "an asserted condition must be a bool", position)

    def layout(self, position: int, op: ir.AssertLayout) -> None:
        self.ints(position, tuple(e for shape in (*op.sizes, *op.strides) for e in shape))

    def resize(self, position: int, op: ir.ResizeStorage) -> None:
        self.ints(position, (op.nbytes,))

    def ints(self, position: int, exprs: tuple[Expr, ...]) -> None:
        for e in exprs:
            if e.kind is not SymKind.INT:
                self.report("WIR034", f"an int is needed here, not a {e.kind}", position)

    def call(self, position: int, op: ir.Switch | ir.WhileLoop | ir.CallSubgraph) -> None:
        for arg in ir.call_args(op):
            self.constant(position, arg)
        for name in ir.callees(op):
            function = self.facts.analyses.functions.get(name)
            for symbol in function.captures if function is not None else ():
                if symbol not in self.defined:
                    self.report("WIR035", f"@{name} captures {symbol}, which is not defined here", position)

    def finish(self) -> None:
        for name, position in self.pending.items():
            self.report("WIR031", f"the type of a result mentions {name}, which is never defined", position)


def _has_item(value: ir.Value) -> bool:
    if ir.is_tensor(value):
        return not value.type.dtype.is_complex and ir.may_have_item(value.type)
    return ir.is_scalar(value)
