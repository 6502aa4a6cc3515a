"""Sizes, strides and storages are not negative."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Claim
from wrapper_ir.verifier.proofs import shown


class Sizes(Check):
    """WIR041 to WIR043, of symbolic sizes. Runs before the checks that rely on them."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.body = facts.function.body
        self.sound: set[int] = set()
        """Ids of the facts (which the table keeps alive) about types that were checked already."""
        for param in facts.function.params:
            if ir.is_tensor(param.value):
                self.given(-1, param.value, param.value.type)

    def handlers(self) -> Handlers:
        made = dict.fromkeys((ir.CallExtern, ir.CollectiveStart, ir.Unpack), self.made)
        return {ir.AllocStorage: self.alloc, ir.View: self.view, **made}

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        type = op.result.type
        if type.nbytes.__class__ is Int:
            return
        whole = self.body[position + 1] if position + 1 < len(self.body) else None
        if isinstance(whole, ir.View) and whole.source is op.result and position + 1 in self.facts.special:
            self.view(position + 1, whole)  # whose sizes say more than their product
            if self.facts.types(whole.result.type).extent is type.nbytes:
                return  # no bytes where a size is 0
        message = f"%{op.result.name}: the number of bytes, {shown(type.nbytes)}, is negative"
        self.facts.require(Claim((((0, type.nbytes),),)), "WIR043", lambda: message, position)

    def view(self, position: int, op: ir.View) -> None:
        special = self.facts.special.get(position)
        if special is None or id(special[0][1]) in self.sound:
            return
        self.sound.add(id(special[0][1]))
        type = op.result.type
        for code, what, numbers in (("WIR041", "size", type.sizes), ("WIR042", "stride", type.strides)):
            for e in numbers:
                if not isinstance(e, Int):
                    self.nonneg(position, op.result, code, what, e)

    def nonneg(self, position: int, value: ir.Value, code: str, what: str, e: Expr) -> None:
        def message() -> str:
            return f"%{value.name}: a {what}, {shown(e)}, is negative"

        self.facts.require(Claim((((0, e),),)), code, message, position)

    def made(self, position: int, op: ir.Op) -> None:
        for value, _ in self.facts.special.get(position, ()):
            if ir.is_tensor(value):
                self.given(position, value, value.type)

    def given(self, position: int, value: ir.Value, type: ir.TensorType) -> None:
        """A tensor that exists has no negative size: a fact, unless its type can be that of none."""
        for code, what, numbers in (("WIR041", "size", type.sizes), ("WIR042", "stride", type.strides)):
            for e in numbers:
                if self.facts.proofs.negative(e):
                    self.report(code, f"%{value.name}: a {what} is negative", position)
        self.facts.proofs.exists(type.sizes)
