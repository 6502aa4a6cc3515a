"""What a document's parts share while it is written or read: its tables, and what is in scope."""

from __future__ import annotations

from typing import TypeVar

from wrapper_ir.json_form.exprs import ExprDecoder
from wrapper_ir.json_form.reading import Json, fault, field, integer, obj, string
from wrapper_ir.ops import Provenance
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["Decoder", "Encoder"]

T = TypeVar("T")


class Encoder:
    """Collects the types and provenances that ops mention."""

    def __init__(self) -> None:
        self.types: dict[Type, int] = {}
        self.provenances: dict[Provenance, int] = {}

    def define(self, value: Value) -> Json:
        """A result with its type's index."""
        return {"name": value.name, "type": self.types.setdefault(value.type, len(self.types))}

    def provenance(self, prov: Provenance) -> Json:
        """The index of a provenance."""
        return self.provenances.setdefault(prov, len(self.provenances))


class Decoder(ExprDecoder):
    """Symbols declared and values defined so far (see `ExprDecoder`), and the program's tables."""

    types: tuple[Type, ...] = ()
    provenances: tuple[Provenance, ...] = ()

    def define(self, x: Json) -> Value:
        """A new value in scope; a second one of the same name is WIR506."""
        o = obj(x)
        name, type = field(o, "name", string), field(o, "type", self._type)
        if len(o) != 2:
            fault("a result has a name and a type, nothing else")
        if name in self.values:
            fault(f"value {name!r} is defined twice", "WIR506")
        value = self.values[name] = Value(name, type)
        return value

    def _type(self, x: Json) -> Type:
        return _at(self.types, integer(x), "type", "WIR521")

    def provenance(self, x: Json) -> Provenance:
        """The provenance at an index; WIR507 where there is none."""
        return _at(self.provenances, integer(x), "provenance", "WIR507")


def _at(table: tuple[T, ...], index: int, what: str, code: str) -> T:
    return table[index] if 0 <= index < len(table) else fault(f"there is no {what} {index}", code)
