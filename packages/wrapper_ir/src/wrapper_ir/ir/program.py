"""The program: symbols, constants, operators, kernels and functions."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar, overload

from wrapper_ir.errors import BuildError
from wrapper_ir.expr import SymKind
from wrapper_ir.ir.kernels.definition import KernelDef
from wrapper_ir.ir.ops import Op
from wrapper_ir.ir.ops.base import Def, SymbolNames
from wrapper_ir.ir.ops.control import Return
from wrapper_ir.ir.schemas import ExternDef
from wrapper_ir.ir.types import CPU, Device, Type

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return len(new) == len(old) and all(map(operator.is_, new, old))


class Ownership(enum.Enum):
    """A borrowed argument stays the caller's; an owned (donated) one is the function's to free or reuse."""

    BORROWED = "borrowed"
    OWNED = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A function parameter: a tensor, a scalar or an opaque value.

    A `static` one is a tensor that lies at the same address in most calls (a model's weights, or what a recording
    returns): a recording of the function is bound to the address, and made anew where it changes for good. Arguments
    for other parameters are copied to where the recording reads them, once they have moved. It is a promise about speed: whoever calls with
    another address gets the same result.
    Text: `%x: f32[8]`, `%x: owned f32[8]`, `%w: static f32[8]`.
    """

    syntax: ClassVar[str] = "{value}: <{ownership} ><{static} >{value:type}"

    value: Def[Type]
    ownership: Ownership = Ownership.BORROWED
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function: its body ends in one `Return`. `captures` are symbols that it takes from its caller by name.

    A `recordable` one, with all that it calls, does nothing but what one device can record and replay, as CUDA graphs do:
    the host neither waits nor decides (WIR225), works (WIR226), or takes memory over (WIR227), and what it starts on other
    streams it joins (WIR228). It returns tensors of its own (WIR281). What it owns of its arguments is no longer used by anyone: a
    recording may use the memory for something else after their last use. Whether, when and for which numbers it is recorded is the runtime's decision; who cannot
    record calls it as any other. Text: `func @step(%x: f32[8] @cuda:0) captures(s0) recordable {`.
    """

    syntax: ClassVar[str] = "func {name:reference}({params})< captures({captures})>< {recordable}>"

    name: str
    params: tuple[Param, ...]
    body: tuple[Op, ...]
    captures: SymbolNames = ()
    recordable: bool = False

    @property
    def returns(self) -> Return:
        """The final op; raises BuildError WIR301 where the body does not end in a Return."""
        if self.body and isinstance(self.body[-1], Return):
            return self.body[-1]
        raise BuildError("WIR301", f"function @{self.name} does not end in a return")

    @overload
    def ops_of(self, first: type[A], /) -> Iterator[A]: ...
    @overload
    def ops_of(self, first: type[A], second: type[B], /) -> Iterator[A | B]: ...
    @overload
    def ops_of(self, first: type[A], second: type[B], third: type[C], /) -> Iterator[A | B | C]: ...

    def ops_of(self, *classes: type[object]) -> Iterator[object]:
        """The ops of these classes, in order."""
        return (op for op in self.body if isinstance(op, classes))

    @overload
    def positions_of(self, first: type[A], /) -> Iterator[tuple[int, A]]: ...
    @overload
    def positions_of(self, first: type[A], second: type[B], /) -> Iterator[tuple[int, A | B]]: ...
    @overload
    def positions_of(
        self, first: type[A], second: type[B], third: type[C], /
    ) -> Iterator[tuple[int, A | B | C]]: ...

    def positions_of(self, *classes: type[object]) -> Iterator[tuple[int, object]]:
        """The ops of these classes with their positions in the body."""
        return ((position, op) for position, op in enumerate(self.body) if isinstance(op, classes))

    def with_body(self, body: Iterable[Op]) -> Function:
        """The function with these ops in place of its own; itself where they are its own."""
        new = tuple(body)
        return self if _same(new, self.body) else dataclasses.replace(self, body=new)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolDef:
    """A declared symbol; `backed` by an input's size or `unbacked` (known only at run time).

    `lower` and `upper` are inclusive bounds (None: unbounded), `hint` an example value.
    Text: `symbol s0 : int backed [2, 1024] hint 8`.
    """

    syntax: ClassVar[str] = (
        "symbol {name:name} : {kind} {backed:backed/unbacked}< [{lower:bound}, {upper:bound}]>< hint {hint}>"
    )

    name: str
    kind: SymKind = SymKind.INT
    backed: bool = True
    lower: int | None = None
    upper: int | None = None
    hint: int | float | bool | None = None


class ConstantKind(enum.Enum):
    """What a constant is in the model that it comes from."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    OTHER = "other"
    """A literal, or something computed when the model was captured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor that lives beside the program, or a packed one; visible in every function as `value`.

    `data_hash` is the sha256 of its bytes, or '' for data that is not stored. A `mutable` constant is state: the
    program may write it, and the writes last from call to call. `names` are all the names that the model has for it:
    tied weights are one constant. Constants whose bytes overlap name one `storage`, in which each begins `offset` bytes
    after the start; where one is written, the others show it. Without a `storage`, the constant has one of its own.
    Text: `const %weight : f32[64, 64] sha256 "..."`, `mutable const %running_mean : f32[64] buffer names("norm.mean")`,
    `const %half : f32[32, 64] parameter names("a.half") storage("w", 8192)`.
    """

    syntax: ClassVar[str] = (
        "<{mutable} >const {value} : {value:type}< {kind}>< names({names})>< storage({storage}, {offset})>"
        "< sha256 {data_hash}>"
    )

    value: Def[Type]
    data_hash: str = ""
    mutable: bool = False
    kind: ConstantKind = ConstantKind.OTHER
    names: tuple[str, ...] = ()
    storage: str = ""
    offset: int = 0

    @property
    def data_name(self) -> str:
        """The name of its storage in an artifact: `storage`, or the name of its value."""
        return self.storage or self.value.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The default device of a program and, for GPUs, the architecture. Text: `target cuda:0 arch "sm_90"`."""

    syntax: ClassVar[str] = "target {device:device}< arch {arch}>"

    device: Device = CPU
    arch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole wrapper program; `functions[0]` is `main`."""

    target: Target = Target()
    symbols: tuple[SymbolDef, ...] = ()
    constants: tuple[Constant, ...] = ()
    externs: tuple[ExternDef, ...] = ()
    kernels: tuple[KernelDef, ...] = ()
    functions: tuple[Function, ...]

    @property
    def main(self) -> Function:
        """The entry function; raises BuildError WIR302 where there is none."""
        if not self.functions:
            raise BuildError("WIR302", "the program has no function")
        return self.functions[0]

    @property
    def ops(self) -> Iterator[Op]:
        """The ops of all functions, in order."""
        return (op for function in self.functions for op in function.body)

    @overload
    def ops_of(self, first: type[A], /) -> Iterator[A]: ...
    @overload
    def ops_of(self, first: type[A], second: type[B], /) -> Iterator[A | B]: ...
    @overload
    def ops_of(self, first: type[A], second: type[B], third: type[C], /) -> Iterator[A | B | C]: ...

    def ops_of(self, *classes: type[object]) -> Iterator[object]:
        """The ops of these classes, in order, of all functions."""
        return (op for op in self.ops if isinstance(op, classes))

    def with_functions(self, functions: Iterable[Function]) -> Program:
        """The program with these functions in place of its own; itself where they are its own."""
        new = tuple(functions)
        return self if _same(new, self.functions) else dataclasses.replace(self, functions=new)

    def constant_named(self, name: str) -> Constant:
        """The constant that the model calls `name`, or whose value has that name; raises BuildError WIR310."""
        for c in self.constants:
            if name in c.names:
                return c
        for c in self.constants:
            if c.value.name == name:
                return c
        raise BuildError("WIR310", f"the program has no constant {name}")

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
