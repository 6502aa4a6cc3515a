"""The state of a random program: the builder, and the values and symbols available to the next op."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from wrapper_ir import ir
from wrapper_ir.builder import FunctionBuilder, ProgramBuilder, ResultT, tensor_type
from wrapper_ir.expr import Expr, Sym, SymKind, as_int
from wrapper_ir_tools.testing.catalogue import EXTERNS
from wrapper_ir_tools.testing.hostile import hostile_name, hostile_string, random_provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomOptions:
    """Options of random programs.

    `executable`: only ops that a CPU machine with C++ kernels can run, with the same results each time.
    `hostile`: names, strings and sources that are hard to print.
    """

    executable: bool = False
    hostile: bool = True
    ops: ir.OpSet = ir.OPS


@dataclass(slots=True, eq=False)
class Held:
    """A tensor that later ops may use. Equal `root` means the same storage; `ready`: all of its bytes are
    written.

    `own`: the storage certainly belongs to the function and may be moved. `mutable`: it may be written.
    """

    value: ir.Value[ir.TensorType]
    root: int
    ready: bool
    own: bool = True
    mutable: bool = True

    @property
    def type(self) -> ir.TensorType:
        """The tensor's type."""
        return self.value.type

    @property
    def dense(self) -> bool:
        """True for float32 in row-major order, the layout of kernel arguments."""
        t = self.type
        return t.dtype is ir.DType.F32 and ir.is_contiguous(t.sizes, t.strides) and t.device == ir.CPU

    @property
    def static(self) -> tuple[int, ...] | None:
        """The sizes if all are constants, otherwise None."""
        sizes = tuple(size for e in self.type.sizes if (size := as_int(e)) is not None)
        return sizes if len(sizes) == len(self.type.sizes) else None


@dataclass(slots=True, eq=False)
class World:
    """The state of one function. `fresh` numbers the roots, symbols and functions of the whole program."""

    rng: random.Random
    options: RandomOptions
    program: ProgramBuilder
    function: FunctionBuilder
    fresh: Iterator[int] = field(default_factory=itertools.count)
    depth: int = 0
    tensors: list[Held] = field(default_factory=list)
    symbols: list[Expr] = field(default_factory=list)
    """Int symbols defined in this function."""
    scalars: list[ir.Value] = field(default_factory=list)
    """Int parameters."""
    predicates: list[ir.Value] = field(default_factory=list)
    """Bool tensors of one element."""
    generators: list[ir.Value] = field(default_factory=list)
    """Handles of random generators."""

    def name(self, wish: str) -> str:
        """A name for a value, sometimes a hostile one."""
        return hostile_name(self.rng, wish) if self.options.hostile else wish

    def string(self) -> str:
        """A random message, label or comment."""
        if self.options.hostile and self.rng.random() < 0.5:
            return hostile_string(self.rng)
        return self.rng.choice(("", "check", "after attention"))

    def step(self) -> None:
        """Begins a step: its ops share a provenance."""
        self.function.prov = random_provenance(self.rng)

    def append(self, op: ir.Op) -> None:
        """Appends an op with the provenance of the step."""
        self.function.append(replace(op, prov=self.function.prov))

    def hold(
        self,
        value: ir.Value[ir.TensorType],
        *,
        root: int | None = None,
        ready: bool = True,
        own: bool = True,
        mutable: bool = True,
    ) -> Held:
        """Makes a tensor available to later ops."""
        number = next(self.fresh) if root is None else root
        entry = Held(value=value, root=number, ready=ready, own=own, mutable=mutable)
        self.tensors.append(entry)
        return entry

    def pick(self, candidates: Iterable[Held]) -> Held | None:
        """A random candidate, or None."""
        items = list(candidates)
        return self.rng.choice(items) if items else None

    def dense(self) -> Held | None:
        """A random float32 tensor in row-major order with data."""
        return self.pick(t for t in self.tensors if t.ready and t.dense)

    def like(self, entry: Held) -> Held | None:
        """Another tensor of the same sizes, or the same one."""
        return self.pick(t for t in self.tensors if t.ready and t.dense and t.type.sizes == entry.type.sizes)

    def forget(self, root: int) -> None:
        """Removes the tensors of a storage that is moved, reused or freed."""
        self.tensors = [t for t in self.tensors if t.root != root]

    def device(self) -> ir.Device:
        """A device for a tensor that no kernel reads: the target's device, or the CPU."""
        target = self.program.target.device
        return ir.CPU if self.options.executable else self.rng.choice((target, ir.CPU, ir.Device("cuda", 1)))

    def dims(self) -> tuple[int | Expr, ...]:
        """Random sizes of a new tensor."""
        choices: list[tuple[int | Expr, ...]] = [(16,), (4, 4), (2, 8), (1,), (), (3, 1, 5)]
        if self.symbols:
            symbol = self.rng.choice(self.symbols)
            choices += [(symbol, 8), (symbol,), (2, symbol)]
        return self.rng.choice(choices)

    def type(self) -> ir.TensorType:
        """A random type of a new kernel argument."""
        return tensor_type(ir.DType.F32, self.dims())

    def alloc(self, type: ir.TensorType) -> Held:
        """Allocates a new, uninitialized tensor."""
        return self.hold(self.function.alloc(self.name("buf"), type), ready=False)

    def symbol(self, kind: SymKind = SymKind.INT, *, backed: bool, lower: int | None = 0) -> Sym:
        """Declares a symbol of the program."""
        rng = self.rng
        name = f"{'s' if backed else 'u'}{next(self.fresh)}"
        upper = rng.choice((None, 4096)) if lower is not None else None
        hint = rng.choice((None, 8)) if kind is SymKind.INT else None
        self.program.symbol(
            ir.SymbolDef(name=name, kind=kind, backed=backed, lower=lower, upper=upper, hint=hint)
        )
        return Sym(name, kind)

    def call(
        self,
        name: str,
        args: Sequence[ir.Arg],
        kwargs: Sequence[tuple[str, ir.Arg]] = (),
        type: ResultT | None = None,
        wish: str = "t",
    ) -> ir.Value[ResultT] | None:
        """Calls an operator of the catalogue."""
        return self.function.call(EXTERNS[name], args, kwargs, name=self.name(wish), type=type)

    def child(self, wish: str) -> World:
        """Begins a new function of the program."""
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
    def length(entry: Held) -> Expr:
        """The number of elements."""
        return ir.numel(entry.type.sizes)


Step = Callable[[World], None]
"""Appends a few ops to a random function, or nothing if no operand is available."""


def on_dense(step: Callable[[World, Held], None]) -> Step:
    """Makes a step of a function on a float32 tensor in row-major order with data."""

    def run(w: World) -> None:
        x = w.dense()
        if x is not None:
            step(w, x)

    return run
