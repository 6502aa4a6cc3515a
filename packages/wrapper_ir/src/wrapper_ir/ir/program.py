"""The program: symbols, constants, operators, kernels and functions."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import ClassVar, TypeVar, overload

from wrapper_ir.errors import BuildError
from wrapper_ir.expr import SymKind
from wrapper_ir.ir.kernels.definition import KernelDef
from wrapper_ir.ir.ops import Op
from wrapper_ir.ir.ops.base import Def, SymbolNames
from wrapper_ir.ir.ops.control import Return
from wrapper_ir.ir.packing import Packing
from wrapper_ir.ir.schemas import ExternDef
from wrapper_ir.ir.types import CPU, Device, Type

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


def _same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """Returns whether two tuples have identical objects."""
    return len(new) == len(old) and all(map(operator.is_, new, old))


class Ownership(enum.Enum):
    """The caller keeps a borrowed argument; the function may free or reuse an owned (donated) one."""

    BORROWED = "borrowed"
    OWNED = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A function parameter: a tensor, a scalar or an opaque value.

    A `static` parameter is a tensor whose address is the same in most calls (a weight, or a result of a
    captured graph). Captured graphs are bound to the address and captured again after a lasting change.
    Arguments of other parameters are copied to a fixed address once they have moved. `static` affects speed
    only: a call with another address returns the same result. Text: `%x: f32[8]`, `%x: owned f32[8]`, `%w:
    static f32[8]`.
    """

    syntax: ClassVar[str] = "{value}: <{ownership} ><{static} >{value:type}"

    value: Def[Type]
    ownership: Ownership = Ownership.BORROWED
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function; its body ends in one `Return`. `captures` are symbols that it reads from its caller by
    name.

    A `replayable` function and its callees do only what one device can capture and replay as a CUDA graph.
    The host neither waits nor branches (WIR225), computes (WIR226) or takes ownership of memory (WIR227);
    work on other streams is joined (WIR228). It returns its own tensors (WIR281). Memory of owned arguments
    may be reused after their last use. The runtime decides whether, when and for which numbers a graph is
    captured; a runtime without graphs calls the function as any other. Text: `func @step(%x: f32[8] @cuda:0)
    captures(s0) replayable {`.
    """

    syntax: ClassVar[str] = "func {name:reference}({params})< captures({captures})>< {replayable}>"

    name: str
    params: tuple[Param, ...]
    body: tuple[Op, ...]
    captures: SymbolNames = ()
    replayable: bool = False

    @property
    def returns(self) -> Return:
        """The final op; raises BuildError WIR301 if the body does not end in a Return."""
        if self.last_return is None:
            raise BuildError("WIR301", f"function @{self.name} does not end in a return")
        return self.last_return

    @property
    def last_return(self) -> Return | None:
        """The final op; None if the body, which is not valid, does not end in a Return."""
        match self.body[-1:]:
            case (Return() as op,):
                return op
            case _:
                return None

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

    def has(self, *classes: type[object] | UnionType) -> bool:
        """Returns whether the body has an op of these classes or unions."""
        return any(isinstance(op, classes) for op in self.body)

    def without(self, *classes: type[object] | UnionType) -> Function:
        """The function without ops of these classes or unions."""
        return self.with_body(op for op in self.body if not isinstance(op, classes))

    def with_body(self, body: Iterable[Op]) -> Function:
        """The function with another body; the same object if the ops are identical."""
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
    """The role of a constant in its model."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    OTHER = "other"
    """A literal, or a tensor computed at capture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor (or an opaque object of torch) beside the program, visible in every function as `value`.

    `data_hash` is the sha256 of its bytes, or '' for data that is not stored. A `mutable` constant is state:
    writes persist between calls. `names` are all its names in the model: tied weights are one constant.
    Constants whose bytes overlap name one `storage`, each at its own `offset` in bytes; a write to one is
    visible in the others. Without a `storage`, the constant has a separate one. A *packed* constant has the
    value and names of another constant in another layout; that one need not be part of the program. Text:
    `const %weight : f32[64, 64] sha256 "..."`, `mutable const %running_mean : f32[64] buffer
    names("norm.mean")`, `const %half : f32[32, 64] parameter names("a.half") storage("w", 8192)`, `const %p :
    f32[4, 64, 16] names("w") packed panels16 of "w"(64, 64) columns 64`.
    """

    syntax: ClassVar[str] = (
        "<{mutable} >const {value} : {value:type}< {kind}>< names({names})>< storage({storage}, {offset})>"
        "< {packing}>< sha256 {data_hash}>"
    )

    value: Def[Type]
    data_hash: str = ""
    mutable: bool = False
    kind: ConstantKind = ConstantKind.OTHER
    names: tuple[str, ...] = ()
    storage: str = ""
    offset: int = 0
    packing: Packing | None = None

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
        """The entry function; raises BuildError WIR302 if the program has no function."""
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
        """The program with other functions; the same object if they are identical."""
        new = tuple(functions)
        return self if _same(new, self.functions) else dataclasses.replace(self, functions=new)

    def constant_named(self, name: str) -> Constant:
        """The constant with this name in the model, or with a value of this name; raises BuildError
        WIR310. A packed one is found if its original is not part of the program."""
        for c in sorted(self.constants, key=lambda c: c.packing is not None):
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
