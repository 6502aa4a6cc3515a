"""Checks that every value is defined once, before its uses, and used with its type and as its kind of
value."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler


class Definitions(Check):
    """WIR010 to WIR014."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.defined: dict[str, ir.Value] = {c.value.name: c.value for c in facts.analyses.program.constants}
        for param in facts.function.params:
            self.define(-1, param.value)
            if not self.fits(param):
                self.report("WIR014", f"parameter %{param.value.name} cannot be {ir.describe(param.value)}")

    def fits(self, param: ir.Param) -> bool:
        """Returns whether a parameter may have its type: only callees have storage parameters, which they
        borrow."""
        if ir.is_storage(param.value):
            return not self.facts.is_main and param.ownership is ir.Ownership.BORROWED
        return not ir.is_results(param.value)

    def define(self, position: int, value: ir.Value) -> None:
        if value.name in self.defined:
            self.report("WIR011", f"%{value.name} is defined already", position)
        self.defined[value.name] = value
        self.facts.positions[value.name] = position

    def every(self) -> Handler:
        return self.op

    def op(self, position: int, op: ir.Op) -> None:
        defined, positions = self.defined, self.facts.positions
        for value in self.facts.scanned[position][0]:
            definition = defined.get(value.name)
            if definition is not value and definition != value:
                self.mismatch(position, value, definition)
        for value in self.facts.results[position]:
            name = value.name
            if name in defined:
                self.define(position, value)
            defined[name] = value
            positions[name] = position
        for code, message in ir.op_spec(type(op)).misfits(op):
            self.report(code, message, position)

    def mismatch(self, position: int, value: ir.Value, definition: ir.Value | None) -> None:
        if definition is None:
            self.report("WIR010", f"%{value.name} is used, but nothing has defined it", position)
        else:
            self.report("WIR012", f"%{value.name} has another type than where it was defined", position)
