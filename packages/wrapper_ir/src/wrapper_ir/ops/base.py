"""What all ops share: the base class, provenance, arguments, and the roles of fields.

Fields say their role in their annotation: `Def`/`Defs` are results, `Use`/`Uses` operands, `Arg`/`Args`/`Kwargs`
nested arguments that may hold operands and expressions; `Expr` fields hold expressions; everything else is
plain data. `wrapper_ir.structure` reads these roles by the annotations' names, so that a new op needs no traversal
code.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from wrapper_ir.expr import Expr, Float
from wrapper_ir.types import Device, DType, Layout, MemoryFormat
from wrapper_ir.values import Value

__all__ = [
    "UNKNOWN",
    "Arg",
    "Args",
    "Complex",
    "Def",
    "Defs",
    "Kwargs",
    "OpBase",
    "OptionalDef",
    "Provenance",
    "Role",
    "SingleArg",
    "Use",
    "Uses",
]


class Role(enum.Enum):
    """What a field of an op holds, seen from data flow."""

    DEF = "def"
    USE = "use"
    ARG = "arg"


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number, always constant. Its parts are `Float` nodes, of which equal ones are one object, NaN too."""

    real: Float
    imag: Float

    @property
    def value(self) -> complex:
        """The number."""
        return complex(self.real.value, self.imag.value)


Arg: TypeAlias = (
    "Value | Expr | Complex | str | DType | Device | MemoryFormat | Layout | tuple[Arg, ...] | None"
)
"""One argument of a call, in structure. Bools and numbers that are not complex are `Expr` (`Int`, `Float`, `Bool` when
constant)."""

Def: TypeAlias = Annotated[Value, Role.DEF]
OptionalDef: TypeAlias = Annotated[Value | None, Role.DEF]
Defs: TypeAlias = Annotated[tuple[Value, ...], Role.DEF]
Use: TypeAlias = Annotated[Value, Role.USE]
Uses: TypeAlias = Annotated[tuple[Value, ...], Role.USE]
SingleArg: TypeAlias = Annotated[Arg, Role.ARG]
Args: TypeAlias = Annotated[tuple[Arg, ...], Role.ARG]
Kwargs: TypeAlias = Annotated[tuple[tuple[str, Arg], ...], Role.ARG]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where an op comes from. All parts may be empty.

    Text: a `#n` reference behind the op, resolved by a `provenance` table at the end of the program.
    """

    nodes: tuple[str, ...] = ()
    """Names of the source graph's nodes, such as `linear_1`."""
    ops: tuple[str, ...] = ()
    """Source operators, such as `aten.addmm.default`."""
    locations: tuple[str, ...] = ()
    """`file:line` places in the model's source."""
    modules: tuple[str, ...] = ()
    """Paths of the owning modules, such as `encoder.layer.0.attention`."""
    upstream: str = ""
    """The upstream compiler's own name for this line, such as `buf3` or `cpp_fused_relu_0`."""


UNKNOWN = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpBase:
    """Base of all ops. Constructing one does nothing but hold data."""

    prov: Provenance = UNKNOWN
