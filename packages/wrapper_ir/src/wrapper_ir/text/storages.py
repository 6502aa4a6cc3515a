"""The type of a storage that an op makes, without its word: `256 @cuda:0 pinned align(16)`."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from wrapper_ir.expr import Expr, Int, print_expr
from wrapper_ir.layout import slot_alignment
from wrapper_ir.text.forms import Form
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.text.printer_types import TypePrinter
from wrapper_ir.types import DEFAULT_ALIGNMENT, MemorySpace, StorageType

__all__ = ["BareStorage"]

_ZERO = Int(0)
_DEFAULT_SPACE = MemorySpace()


@dataclass(frozen=True, slots=True)
class BareStorage:
    """Writes and reads the type of the result `field`. Inside the operand `pool`, it is aligned as follows from its place
    there unless it says otherwise."""

    field: str
    pool: str
    space: Form

    def write(self, op: Any, types: TypePrinter) -> str:  # Any: an op of whatever class
        """The text for an op."""
        held = attrgetter(f"{self.field}.type")(op)
        if not isinstance(held, StorageType):  # the verifier refuses it, with this line
            return f": {types.type(held)}"
        text = print_expr(held.nbytes) + types.at(held.device)
        if held.space != _DEFAULT_SPACE:
            text += f" {self.space.write(held.space, types)}"
        usual = self._usual(getattr(op, self.pool).type, op.offset) if self.pool else DEFAULT_ALIGNMENT
        return text if held.alignment == usual else f"{text} align({held.alignment})"

    def read(
        self, p: OpParser, found: dict[str, Any]
    ) -> StorageType:  # Any: the op's fields, as far as they are read
        """The type that stands here."""
        nbytes, device = p.expr(), p.device_suffix()
        space = self.space.read(p) if self.space.starts(p.tokens[p.at]) else _DEFAULT_SPACE
        if p.accept("align"):
            p.expect("(")
            alignment = p.integer("an alignment")
            p.expect(")")
        elif self.pool:
            alignment = self._usual(found[self.pool].type, found.get("offset", _ZERO))
        else:
            alignment = DEFAULT_ALIGNMENT
        return StorageType(nbytes, device, space, alignment)

    def _usual(self, pool: object, offset: Expr) -> int:
        return slot_alignment(pool, offset) if isinstance(pool, StorageType) else DEFAULT_ALIGNMENT
