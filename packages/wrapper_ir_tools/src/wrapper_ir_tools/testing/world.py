"""What a random program holds so far: the builder, and the values and symbols that the next op may use."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wrapper_ir.builder import FunctionBuilder, ProgramBuilder, ResultT, tensor_type
from wrapper_ir.expr import Expr, Int, Sym, SymKind
from wrapper_ir.ir.layout import is_contiguous, numel
from wrapper_ir.ir.ops import OPS, Arg, OpSet
from wrapper_ir.ir.program import SymbolDef
from wrapper_ir.ir.types import CPU, Device, DType, TensorType
from wrapper_ir.ir.values import Value
from wrapper_ir_tools.testing.catalogue import EXTERNS
from wrapper_ir_tools.testing.hostile import hostile_name, hostile_string, random_provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomOptions:
    """`executable`: only what a CPU machine with C++ kernels can run, with the same results each time.

    `hostile`: names, strings and sources that are hard to print.
    """

    executable: bool = False
    hostile: bool = True
    ops: OpSet = OPS


@dataclass(slots=True, eq=False)
class Held:
    """A tensor that later ops may use. `root` tells storages apart; `ready`: all of its bytes are written.

    `own`: the storage is surely the function's, so that it may be moved; `mutable`: it may be written.
    """

    value: Value[TensorType]
    root: int
    ready: bool
    own: bool = True
    mutable: bool = True

    @property
    def type(self) -> TensorType:
        """The tensor's type."""
        return self.value.type

    @property
    def dense(self) -> bool:
        """Float32 in row-major order: what the kernels take."""
        t = self.type
        return t.dtype is DType.F32 and is_contiguous(t.sizes, t.strides) and t.device == CPU

    @property
    def static(self) -> tuple[int, ...] | None:
        """The sizes, where all are constants."""
        sizes = tuple(e.value for e in self.type.sizes if isinstance(e, Int))
        return sizes if len(sizes) == len(self.type.sizes) else None


@dataclass(slots=True, eq=False)
class World:
    """One function being built. `fresh` numbers roots, symbols and functions of the whole program."""

    rng: random.Random
    options: RandomOptions
    program: ProgramBuilder
    function: FunctionBuilder
    fresh: Iterator[int] = field(default_factory=itertools.count)
    depth: int = 0
    tensors: list[Held] = field(default_factory=list)
    symbols: list[Expr] = field(default_factory=list)
    """Int symbols that are defined here."""
    scalars: list[Value] = field(default_factory=list)
    """Int parameters."""
    predicates: list[Value] = field(default_factory=list)
    """Bool tensors of one element."""
    generators: list[Value] = field(default_factory=list)
    """Handles of random generators."""

    def name(self, wish: str) -> str:
        """A name for a value, at times a hostile one."""
        return hostile_name(self.rng, wish) if self.options.hostile else wish

    def string(self) -> str:
        """A message, label or comment."""
        if self.options.hostile and self.rng.random() < 0.5:
            return hostile_string(self.rng)
        return self.rng.choice(("", "check", "after attention"))

    def step(self) -> None:
        """Called before each step: the ops that follow share a provenance."""
        self.function.prov = random_provenance(self.rng)

    def hold(
        self,
        value: Value[TensorType],
        *,
        root: int | None = None,
        ready: bool = True,
        own: bool = True,
        mutable: bool = True,
    ) -> Held:
        """Makes a tensor available."""
        number = next(self.fresh) if root is None else root
        held = Held(value=value, root=number, ready=ready, own=own, mutable=mutable)
        self.tensors.append(held)
        return held

    def pick(self, found: Iterable[Held]) -> Held | None:
        """Any of these."""
        items = list(found)
        return self.rng.choice(items) if items else None

    def dense(self) -> Held | None:
        """A float32 tensor in row-major order that holds data."""
        return self.pick(t for t in self.tensors if t.ready and t.dense)

    def like(self, held: Held) -> Held | None:
        """Another tensor of the same sizes, or the same one."""
        return self.pick(t for t in self.tensors if t.ready and t.dense and t.type.sizes == held.type.sizes)

    def forget(self, root: int) -> None:
        """The storage is moved, reused or freed."""
        self.tensors = [t for t in self.tensors if t.root != root]

    def device(self) -> Device:
        """Where a tensor goes that no kernel takes: the target's device, or the CPU."""
        target = self.program.target.device
        return CPU if self.options.executable else self.rng.choice((target, CPU, Device("cuda", 1)))

    def dims(self) -> tuple[int | Expr, ...]:
        """Sizes of a new tensor."""
        choices: list[tuple[int | Expr, ...]] = [(16,), (4, 4), (2, 8), (1,), (), (3, 1, 5)]
        if self.symbols:
            symbol = self.rng.choice(self.symbols)
            choices += [(symbol, 8), (symbol,), (2, symbol)]
        return self.rng.choice(choices)

    def type(self) -> TensorType:
        """A type of a new tensor that kernels take."""
        return tensor_type(DType.F32, self.dims())

    def alloc(self, type: TensorType) -> Held:
        """A new tensor, not written yet."""
        return self.hold(self.function.alloc(self.name("buf"), type), ready=False)

    def symbol(self, kind: SymKind = SymKind.INT, *, backed: bool, lower: int | None = 0) -> Sym:
        """Declares a symbol of the program."""
        rng = self.rng
        name = f"{'s' if backed else 'u'}{next(self.fresh)}"
        upper = rng.choice((None, 4096)) if lower is not None else None
        hint = rng.choice((None, 8)) if kind is SymKind.INT else None
        self.program.symbol(
            SymbolDef(name=name, kind=kind, backed=backed, lower=lower, upper=upper, hint=hint)
        )
        return Sym(name, kind)

    def call(
        self,
        name: str,
        args: Sequence[Arg],
        kwargs: Sequence[tuple[str, Arg]] = (),
        type: ResultT | None = None,
        wish: str = "t",
    ) -> Value[ResultT] | None:
        """Calls an operator of the catalogue."""
        return self.function.call(EXTERNS[name], args, kwargs, name=self.name(wish), type=type)

    def child(self, wish: str) -> World:
        """A new function of the program."""
        function = self.program.function(self.name(f"{wish}{next(self.fresh)}"))
        return World(
            rng=self.rng,
            options=self.options,
            program=self.program,
            function=function,
            fresh=self.fresh,
            depth=self.depth + 1,
        )

    @staticmethod
    def length(held: Held) -> Expr:
        """Number of elements."""
        return numel(held.type.sizes)


Step = Callable[[World], None]
"""Appends a few ops to a random function, or nothing where there is nothing to work on."""


def on_dense(step: Callable[[World, Held], None]) -> Step:
    """A step on a float32 tensor in row-major order that holds data."""

    def run(w: World) -> None:
        x = w.dense()
        if x is not None:
            step(w, x)

    return run
