"""What all ops share: the base class, provenance, arguments, and the roles of fields.

A field says its role, and the type of value that it takes, in its annotation: `source: Use[TensorType]`. Everything that
is mechanical follows from that (`wrapper_ir.ir.ops.spec`): text, JSON, JSON Schema, traversal, renaming, which kinds of
values an op takes, and the reference.
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
    """What a field of an op holds."""

    DEF = "result"
    """Values that the op defines."""
    USE = "operand"
    """Values that it uses."""
    ARG = "arguments"
    """Values and expressions in any nesting."""
    EXPR = "expression"
    """Expressions that it evaluates."""
    CALLEE = "function"
    """The names of functions of the program."""
    KERNEL = "kernel"
    """The name of a kernel of the program."""
    OPERATOR = "operator"
    """The name of a declared operator."""
    SYMBOL = "symbol"
    """The name of a declared symbol."""
    STREAM = "stream"
    """The number of a stream; 0 is the device's current one."""
    PROVENANCE = "provenance"
    """Where an op comes from."""
    DATA = "data"
    """Everything else."""


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number, always constant. Its parts are `Float` nodes, of which equal ones are one object, NaN too."""

    real: Float
    imag: Float

    @property
    def value(self) -> complex:
        """The number."""
        return complex(self.real.value, self.imag.value)


if TYPE_CHECKING:
    Arg: TypeAlias = (
        "Value | Expr | Complex | str | DType | Device | MemoryFormat | Layout | tuple[Arg, ...] | None"
    )
    """One argument of a call, in structure. Bools and numbers that are not complex are `Expr` (`Int`, `Float`, `Bool`
    when constant)."""
else:

    class Arg:
        """What annotations show at run time, where a union cannot name itself."""


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
    """Where an op comes from. All parts may be empty.

    In text, an op ends in a mark such as `#1`, and a `provenance` table at the end of the program has a line for each mark.

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
    """What the frontend's compiler calls this line, such as `buf3` or `cpp_fused_relu_0`."""


UNKNOWN = Provenance()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpBase:
    """Base of all ops. Constructing one does nothing but hold data.

    `syntax` is the text form (`wrapper_ir.text.syntax` says how to read it), `effect_spec` what the op does; an op whose
    effects depend on more than its fields overrides `effects`.
    """

    syntax: ClassVar[str] = ""
    effect_spec: ClassVar[EffectSpec] = EffectSpec()

    prov: Annotated[Provenance, Role.PROVENANCE] = UNKNOWN

    def effects(self, context: EffectContext) -> Effects:
        """What the op does to memory and beyond. An unknown kernel or operator is taken to read and write everything."""
        return self.effect_spec.of(self)
