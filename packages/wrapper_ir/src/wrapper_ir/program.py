"""The program: symbols, constants, operators, kernels and functions."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wrapper_ir.errors import BuildError
from wrapper_ir.expr import SymKind
from wrapper_ir.kernels import KernelDef
from wrapper_ir.ops import Op, Return
from wrapper_ir.schemas import ExternDef
from wrapper_ir.types import CPU, Device
from wrapper_ir.values import Value

__all__ = [
    "SCHEMA_VERSION",
    "Constant",
    "Function",
    "Ownership",
    "Param",
    "Program",
    "SymbolDef",
    "Target",
]

SCHEMA_VERSION = "0.1"
"""Version of the IR's own schema; independent of the package version."""


class Ownership(enum.Enum):
    """A borrowed argument stays the caller's; an owned (donated) one is the function's to free or reuse."""

    BORROWED = "borrowed"
    OWNED = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A function parameter: a tensor, a scalar or an opaque value. Text: `%x: f32[8]`, `%x: owned f32[8]`."""

    value: Value
    ownership: Ownership = Ownership.BORROWED


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function: its body ends in one `Return`. `captures` are symbols that it takes from its caller by name."""

    name: str
    params: tuple[Param, ...]
    body: tuple[Op, ...]
    captures: tuple[str, ...] = ()

    @property
    def returns(self) -> Return:
        """The final op; raises BuildError WIR301 where the body does not end in a Return."""
        if self.body and isinstance(self.body[-1], Return):
            return self.body[-1]
        raise BuildError("WIR301", f"function @{self.name} does not end in a return")


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolDef:
    """A declared symbol; `backed` by an input's size or `unbacked` (known only at run time).

    `lower` and `upper` are inclusive bounds (None: unbounded), `hint` an example value.
    Text: `symbol s0 : int backed [2, 1024] hint 8`.
    """

    name: str
    kind: SymKind = SymKind.INT
    backed: bool = True
    lower: int | None = None
    upper: int | None = None
    hint: int | float | bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor that lives beside the program, or a packed one; visible in every function as `value`.

    `data_hash` is the sha256 of its bytes, or '' for data that is not stored. A `mutable` constant is state: the
    program may write it, and the writes last from call to call.
    Text: `const %weight : f32[64, 64] sha256 "..."`, `mutable const %running_mean : f32[64] sha256 "..."`.
    """

    value: Value
    data_hash: str = ""
    mutable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the program is for: its default device and, for GPUs, the architecture (`sm_90`)."""

    device: Device = CPU
    arch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole wrapper program; `functions[0]` is `main`."""

    functions: tuple[Function, ...]
    target: Target = Target()
    symbols: tuple[SymbolDef, ...] = ()
    constants: tuple[Constant, ...] = ()
    externs: tuple[ExternDef, ...] = ()
    kernels: tuple[KernelDef, ...] = ()
    schema_version: str = SCHEMA_VERSION

    @property
    def main(self) -> Function:
        """The entry function; raises BuildError WIR302 where there is none."""
        if not self.functions:
            raise BuildError("WIR302", "the program has no function")
        return self.functions[0]

    def function(self, name: str) -> Function:
        """The function of this name; raises BuildError WIR303."""
        for f in self.functions:
            if f.name == name:
                return f
        raise BuildError("WIR303", f"the program has no function @{name}")

    def kernel(self, name: str) -> KernelDef:
        """The kernel of this name; raises BuildError WIR304."""
        for k in self.kernels:
            if k.name == name:
                return k
        raise BuildError("WIR304", f"the program has no kernel @{name}")

    def extern(self, name: str) -> ExternDef:
        """The declared operator of this name; raises BuildError WIR305."""
        for e in self.externs:
            if e.name == name:
                return e
        raise BuildError("WIR305", f"the program declares no operator {name}")
