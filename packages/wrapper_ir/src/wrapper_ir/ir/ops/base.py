"""Base class of ops, provenance, arguments, and roles of fields.

A field's annotation declares its role and the type of value that it accepts: `source: Use[TensorType]`.
`wrapper_ir.ir.ops.spec` derives the rest: text, JSON, JSON Schema, traversal, renaming, operand checks and
the reference.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, TypeVar

from wrapper_ir.expr import Expr, Float
from wrapper_ir.ir.ops.effects import EffectContext, Effects, EffectSpec
from wrapper_ir.ir.types import Device, DType, Layout, MemoryFormat, Type
from wrapper_ir.ir.values import Value


class Role(enum.Enum):
    """Meaning of an op's field."""

    DEF = "result"
    """Values that the op defines."""
    USE = "operand"
    """Values that the op uses."""
    ARG = "arguments"
    """Values and expressions, nested to any depth."""
    EXPR = "expression"
    """Expressions that the op evaluates."""
    CALLEE = "function"
    """Names of functions of the program."""
    KERNEL = "kernel"
    """Name of a kernel of the program."""
    OPERATOR = "operator"
    """Name of a declared operator."""
    SYMBOL = "symbol"
    """Name of a declared symbol."""
    STREAM = "stream"
    """Number of a stream; 0 is the device's current stream."""
    PROVENANCE = "provenance"
    """Source of the op: graph nodes, operators, lines."""
    DATA = "data"
    """Any other data."""


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex constant. Its parts are interned `Float` nodes: equal parts, NaN too, are one object."""

    real: Float
    imag: Float

    @property
    def value(self) -> complex:
        """The constant as a Python number."""
        return complex(self.real.value, self.imag.value)


if TYPE_CHECKING:
    Arg: TypeAlias = (
        "Value | Expr | Complex | str | DType | Device | MemoryFormat | Layout | tuple[Arg, ...] | None"
    )
    """One argument of a call, possibly nested. Bools and real numbers are `Expr` (`Int`, `Float` or `Bool`
    when constant)."""
else:

    class Arg:
        """Run-time stand-in for the recursive union in annotations."""


T = TypeVar("T", bound=Type)
Def: TypeAlias = Annotated[Value[T], Role.DEF]
OptionalDef: TypeAlias = Annotated[Value[T] | None, Role.DEF]
Defs: TypeAlias = Annotated[tuple[Value[T], ...], Role.DEF]
Use: TypeAlias = Annotated[Value[T], Role.USE]
Uses: TypeAlias = Annotated[tuple[Value[T], ...], Role.USE]
SingleArg: TypeAlias = Annotated[Arg, Role.ARG]
Args: TypeAlias = Annotated[tuple[Arg, ...], Role.ARG]
Kwargs: TypeAlias = Annotated[tuple[tuple[str, Arg], ...], Role.ARG]
Shapes: TypeAlias = Annotated[tuple[tuple[Expr, ...], ...], Role.EXPR]
Callee: TypeAlias = Annotated[str, Role.CALLEE]
Callees: TypeAlias = Annotated[tuple[str, ...], Role.CALLEE]
KernelName: TypeAlias = Annotated[str, Role.KERNEL]
OperatorName: TypeAlias = Annotated[str, Role.OPERATOR]
SymbolName: TypeAlias = Annotated[str, Role.SYMBOL]
SymbolNames: TypeAlias = Annotated[tuple[str, ...], Role.SYMBOL]
Stream: TypeAlias = Annotated[int, Role.STREAM]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Source of an op. All parts may be empty.

    In text, an op ends in a mark such as `#1`; a `provenance` table at the end of the program lists the
    marks.

    Text: `nodes("relu") ops("aten.relu.default")`.
    """

    syntax: ClassVar[str] = (
        "< nodes({nodes})>< ops({ops})>< at({locations})>< modules({modules})>< frontend({frontend_name})>"
    )

    nodes: tuple[str, ...] = ()
    """Names of the source graph's nodes, such as `linear_1`."""
    ops: tuple[str, ...] = ()
    """Source operators, such as `aten.addmm.default`."""
    locations: tuple[str, ...] = ()
    """`file:line` places in the model's source."""
    modules: tuple[str, ...] = ()
    """Paths of the owning modules, such as `encoder.layer.0.attention`."""
    frontend_name: str = ""
    """The frontend compiler's name for this line, such as `buf3` or `cpp_fused_relu_0`."""


UNKNOWN = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpBase:
    """Base of all ops. Construction stores the fields and checks nothing.

    `syntax` is the text form, as described in `wrapper_ir.text.syntax`. `effect_spec` declares the op's
    effects; an op whose effects depend on more than its fields overrides `effects`.
    """

    syntax: ClassVar[str] = ""
    effect_spec: ClassVar[EffectSpec] = EffectSpec()

    prov: Annotated[Provenance, Role.PROVENANCE] = UNKNOWN

    def effects(self, context: EffectContext) -> Effects:
        """Returns the op's effects. An unknown callee is assumed to read and write all of its arguments."""
        return self.effect_spec.of(self)
