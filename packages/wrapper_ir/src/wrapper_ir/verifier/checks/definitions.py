"""Every value is defined once, before its uses, and used with the type and as the kind of value that it is."""

from __future__ import annotations

from wrapper_ir.ops import Op, OpBase
from wrapper_ir.types import OpaqueType, ScalarType, TensorType
from wrapper_ir.values import Value
from wrapper_ir.verifier.checks.kinds import KINDS, Kinds, describe
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handler, Handlers

__all__ = ["Definitions"]


class Definitions(Check):
    """WIR010 to WIR014."""

    name = "definitions"

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.defined: dict[str, Value] = {c.value.name: c.value for c in facts.index.program.constants}
        for param in facts.function.params:
            self.define(-1, param.value)
            if not isinstance(param.value.type, TensorType | ScalarType | OpaqueType):
                self.report("WIR014", f"parameter %{param.value.name} cannot be {describe(param.value)}")

    def define(self, position: int, value: Value) -> None:
        if value.name in self.defined:
            self.report("WIR011", f"%{value.name} is defined already", position)
        self.defined[value.name] = value
        self.facts.positions[value.name] = position

    def every(self) -> Handler:
        return self.op

    def op(self, position: int, op: Op) -> None:
        defined = self.defined
        for value in self.facts.scanned[position][0]:
            known = defined.get(value.name)
            if known is not value and known != value:
                self.unlike(position, value, known)
        for value in self.facts.results[position]:
            self.define(position, value)

    def unlike(self, position: int, value: Value, known: Value | None) -> None:
        if known is None:
            self.report("WIR010", f"%{value.name} is used, but nothing has defined it", position)
        else:
            self.report("WIR012", f"%{value.name} has another type than where it was defined", position)

    def handlers(self) -> Handlers:
        return {cls: _kind_handler(self, kinds) for cls, kinds in KINDS.items() if kinds}


def _kind_handler(check: Definitions, kinds: Kinds) -> Handler:
    report = check.report

    def handle(position: int, op: OpBase) -> None:
        for code, get, allowed in kinds:
            held = get(op)
            for value in held if isinstance(held, tuple) else (held,):
                if value is not None and not isinstance(value.type, allowed):
                    report(code, f"%{value.name} is {describe(value)}, which cannot stand here", position)

    return handle
