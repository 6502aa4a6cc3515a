"""Checks that sizes, strides and the bytes of storages are not negative."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.verifier.facts import Check, FunctionFacts, Handlers
from wrapper_ir.verifier.obligations import Claim
from wrapper_ir.verifier.proofs import shown


class Sizes(Check):
    """WIR041 to WIR043, for symbolic sizes. Runs before the checks that rely on them."""

    def __init__(self, facts: FunctionFacts) -> None:
        super().__init__(facts)
        self.body = facts.function.body
        self.sound: set[int] = set()
        """Ids of the facts about types that were already checked; the table keeps the facts alive."""
        for param in facts.function.params:
            if ir.is_tensor(param.value):
                self.exists(-1, param.value)

    def handlers(self) -> Handlers:
        results = dict.fromkeys((ir.CallExtern, ir.CollectiveStart, ir.Unpack), self.results)
        return {ir.AllocStorage: self.alloc, ir.View: self.view, **results}

    def alloc(self, position: int, op: ir.AllocStorage) -> None:
        type = op.result.type
        if type.nbytes.__class__ is Int:
            return
        whole = self.body[position + 1] if position + 1 < len(self.body) else None
        if isinstance(whole, ir.View) and whole.source is op.result and position + 1 in self.facts.special:
            self.view(
                position + 1, whole
            )  # facts about the sizes are stronger than those about their product
            if self.facts.types(whole.result.type).extent is type.nbytes:
                return  # a product of sizes that are not negative
        message = f"%{op.result.name}: the number of bytes, {shown(type.nbytes)}, is negative"
        self.facts.require(Claim((((0, type.nbytes),),)), "WIR043", lambda: message, position)

    def view(self, position: int, op: ir.View) -> None:
        special = self.facts.special.get(position)
        if special is None or id(special[0][1]) in self.sound:
            return
        self.sound.add(id(special[0][1]))
        for code, what, e in _dims(op.result.type):
            if e.integer is None:
                self.nonneg(position, op.result, code, what, e)

    def nonneg(self, position: int, value: ir.Value, code: str, what: str, e: Expr) -> None:
        def message() -> str:
            return f"%{value.name}: a {what}, {shown(e)}, is negative"

        self.facts.require(Claim((((0, e),),)), code, message, position)

    def results(self, position: int, op: ir.Op) -> None:
        for value, _ in self.facts.special.get(position, ()):
            if ir.is_tensor(value):
                self.exists(position, value)

    def exists(self, position: int, value: ir.Value[ir.TensorType]) -> None:
        """Adds the fact that an existing tensor has no negative size, and reports types that no tensor can
        have."""
        for code, what, e in _dims(value.type):
            if self.facts.proofs.negative(e):
                self.report(code, f"%{value.name}: a {what} is negative", position)
        self.facts.proofs.exists(value.type.sizes)


def _dims(type: ir.TensorType) -> Iterator[tuple[str, str, Expr]]:
    """The sizes and strides, each with the code and the word for a negative one."""
    for e in type.sizes:
        yield "WIR041", "size", e
    for e in type.strides:
        yield "WIR042", "stride", e
