"""Every value is defined once, before its uses, and used with the type and as the kind of value that it is."""

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
        """Callees borrow storages; main is called with what a model has."""
        if ir.is_storage(param.value):
            is_main = self.facts.function is self.facts.analyses.program.functions[0]
            return not is_main and param.ownership is ir.Ownership.BORROWED
        return isinstance(param.value.type, ir.TensorType | ir.ScalarType | ir.OpaqueType)

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
            known = defined.get(value.name)
            if known is not value and known != value:
                self.unlike(position, value, known)
        for value in self.facts.results[position]:
            name = value.name
            if name in defined:
                self.define(position, value)
            defined[name] = value
            positions[name] = position
        for code, message in ir.op_spec(type(op)).misfits(op):
            self.report(code, message, position)

    def unlike(self, position: int, value: ir.Value, known: ir.Value | None) -> None:
        if known is None:
            self.report("WIR010", f"%{value.name} is used, but nothing has defined it", position)
        else:
            self.report("WIR012", f"%{value.name} has another type than where it was defined", position)
