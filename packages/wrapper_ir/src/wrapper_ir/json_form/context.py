"""What a document's parts share while it is written or read: its tables, and what is in scope."""

from __future__ import annotations

from wrapper_ir.json_form.exprs import ArgDecoder
from wrapper_ir.json_form.reading import Json, fault, field, integer, obj, string
from wrapper_ir.ops import Provenance
from wrapper_ir.types import Type
from wrapper_ir.values import Value

__all__ = ["Decoder", "Encoder"]


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


class Decoder(ArgDecoder):
    """Symbols declared and values defined so far (see `ArgDecoder`), the program's tables, and the depth of records."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.types: tuple[Type, ...] = ()
        self.provenances: tuple[Provenance, ...] = ()

    def define(self, x: Json) -> Value:
        """A new value in scope; a second one of the same name is WIR506."""
        o = obj(x)
        name = field(o, "name", string)
        value = Value(name, field(o, "type", self._type))
        if len(o) != 2:
            fault("a result has a name and a type, nothing else")
        if name in self.values:
            fault(f"value {name!r} is defined twice", "WIR506")
        self.values[name] = value
        return value

    def _type(self, x: Json) -> Type:
        index = integer(x)
        return self.types[index] if 0 <= index < len(self.types) else fault(f"there is no type {index}")

    def provenance(self, x: Json) -> Provenance:
        """The provenance at an index; WIR507 where there is none."""
        index = integer(x)
        known = self.provenances
        return known[index] if 0 <= index < len(known) else fault(f"there is no provenance {index}", "WIR507")
