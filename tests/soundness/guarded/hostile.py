"""Hostile programs: steps are combined without regard to validity.

`wrong` is the probability of an invalid one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from tests.soundness.guarded.edges import hostile_expr, near
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.builder import FunctionBuilder, ProgramBuilder, tensor_type
from wrapper_ir.expr import Expr, Sym, SymKind, as_expr
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

_DTYPES = (ir.DType.F32,) * 6 + (
    ir.DType.I32,
    ir.DType.I64,
    ir.DType.U8,
    ir.DType.BOOL,
    ir.DType.F64,
    ir.DType.BF16,
    ir.DType.C64,
)


@dataclass(slots=True, eq=False)
class Hostile:
    """A function under construction, and its available names."""

    rng: random.Random
    wrong: float
    program: ProgramBuilder
    function: FunctionBuilder
    fresh: Iterator[int] = field(default_factory=count)
    depth: int = 0
    tensors: list[ir.Value[ir.TensorType]] = field(default_factory=list)
    storages: list[ir.Value[ir.StorageType]] = field(default_factory=list)
    scalars: list[ir.Value] = field(default_factory=list)
    predicates: list[ir.Value] = field(default_factory=list)
    symbols: list[Expr] = field(default_factory=list)
    unready: set[str] = field(default_factory=set)
    housed: set[str] = field(default_factory=set)
    """Tensors over slots and lent storages, which are not returned."""

    def bad(self) -> bool:
        """Returns whether the next choice is invalid."""
        return self.rng.random() < self.wrong

    def name(self, wish: str) -> str:
        """A name that nothing has."""
        return f"{wish}{next(self.fresh)}"

    def number(self, right: Expr | int) -> Expr:
        """The right number, or another."""
        if not self.bad():
            return as_expr(right)
        return hostile_expr(self.rng, self.symbols) if self.rng.random() < 0.5 else near(self.rng, right)

    def tensor(
        self, like: ir.TensorType | None = None, *, ready: bool = True
    ) -> ir.Value[ir.TensorType] | None:
        """Any tensor in reach, of this type unless wrong."""
        wanted = [t for t in self.tensors if not ready or t.name not in self.unready]
        if like is not None:
            wanted = [t for t in wanted if t.type.sizes == like.sizes and t.type.dtype is like.dtype]
        found = self.tensors if self.bad() else wanted
        return self.rng.choice(found) if found else None

    def sizes(self) -> tuple[Expr, ...]:
        """Sizes of something new."""
        rng = self.rng
        some: list[tuple[int | Expr, ...]] = [(16,), (4, 4), (2, 8), (1,), (), (3, 1, 5), (0,), (4, 0)]
        if self.symbols:
            s = rng.choice(self.symbols)
            some += [(s, 8), (s,), (2, s), (s, s), (s + 3,)]
            if rng.random() < 0.3:
                some += [
                    (hostile_expr(rng, self.symbols),),
                    (s - 2, 4),
                    (rng.choice(self.symbols) // 2, 2),
                ] * 2
        return tuple(self.number(d) for d in rng.choice(some))

    def type(self, dtype: ir.DType | None = None) -> ir.TensorType:
        """Of something new; strides may be gaps, overlaps, or less than nothing."""
        sizes = self.sizes()
        strides = ir.contiguous_strides(sizes)
        if self.rng.random() < 0.15 and len(sizes) == 2:
            strides = (as_expr(1), sizes[0])
        return tensor_type(dtype or self.rng.choice(_DTYPES), sizes, tuple(self.number(s) for s in strides))

    def hold(self, value: ir.Value[ir.TensorType], *, ready: bool = True) -> ir.Value[ir.TensorType]:
        """Makes the value available."""
        self.tensors.append(value)
        if not ready:
            self.unready.add(value.name)
        return value

    def alloc(self, type: ir.TensorType) -> ir.Value[ir.TensorType]:
        """Memory of a type."""
        nbytes = hostile_expr(self.rng, self.symbols) if self.bad() else None
        return self.hold(self.function.alloc(self.name("buf"), type, nbytes), ready=False)

    def symbol(self, *, backed: bool = False, kind: SymKind = SymKind.INT) -> Sym:
        """A symbol with a range that may be wrong."""
        rng = self.rng
        name = self.name("s" if backed else "u")
        lower, upper = rng.choice(
            ((0, None), (0, 64), (1, 4), (2, 2), (None, None), (0, 1 << 62), (-4, 4), (8, 16))
        )
        self.program.symbol(
            ir.SymbolDef(name=name, kind=kind, backed=backed, lower=lower, upper=upper)
            if kind is SymKind.INT
            else ir.SymbolDef(name=name, kind=kind, backed=backed)
        )
        return Sym(name, kind)

    def child(self, wish: str) -> Hostile:
        """Another function of the program."""
        return Hostile(
            rng=self.rng,
            wrong=self.wrong,
            program=self.program,
            function=self.program.function(self.name(wish)),
            fresh=self.fresh,
            depth=self.depth + 1,
        )


def hostile_artifact(rng: random.Random) -> Artifact:
    """A program that may be valid or invalid."""
    from tests.soundness.guarded.steps import STEPS

    program = ProgramBuilder()
    h = Hostile(
        rng=rng,
        wrong=rng.choice((0.0, 0.0, 0.01, 0.03, 0.08)),
        program=program,
        function=program.function("main"),
    )
    data = _begin(h)
    for _ in range(rng.randrange(1, 12)):
        rng.choice(STEPS)(h)
    h.function.ret(_results(h))
    made = program.finish()
    return bare_artifact(_ended(h, made), data)


def _begin(h: Hostile) -> dict[str, TensorData]:
    """Parameters of every kind, symbols read from them, a weight and a state."""
    f, rng = h.function, h.rng
    data: dict[str, TensorData] = {}
    for name, mutable in (("weight", False), ("state", True)):
        data[name] = TensorData(ir.DType.F32, memoryview(bytes(range(64))))
        value = ir.Value(name, tensor_type(ir.DType.F32, (16,)))
        h.program.constant(ir.Constant(value=value, data_hash=data[name].sha256(), mutable=mutable))
        h.hold(value)
    rows = h.symbol(backed=True)
    x = f.param("x", tensor_type(ir.DType.F32, (rows, 8)))
    h.scalars.append(f.param("n", ir.ScalarType(SymKind.INT)))
    owner = rng.choice(tuple(ir.Ownership))
    for name, type in (
        ("y", tensor_type(ir.DType.F32, (4, 4))),
        ("z", tensor_type(ir.DType.F32, (4, 4), rng.choice(((4, 1), (1, 4), (0, 1), (8, 1), (2, 1))))),
        ("index", tensor_type(ir.DType.I64, (4,))),
        ("other", tensor_type(ir.DType.F32, (h.number(rows), 8))),
    ):
        h.hold(f.param(name, type, owner if name == "y" else ir.Ownership.BORROWED))
    h.predicates.append(f.param("p", tensor_type(ir.DType.BOOL, ())))
    h.hold(x)
    f.define(rows.name, ir.SizeOf(x, 0))
    h.symbols.append(rows)
    if rng.random() < 0.5:
        count = h.symbol()
        f.define(count.name, ir.Item(h.scalars[0]))
        h.symbols.append(count)
    return data


def _results(h: Hostile) -> tuple[ir.Arg, ...]:
    found = [t for _ in range(h.rng.randrange(1, 4)) if (t := h.tensor()) is not None]
    if not h.bad():
        found = [t for i, t in enumerate(found) if t not in found[:i] and t.name not in h.housed]
    return (*found, *(h.rng.sample(h.symbols, 1) if h.symbols and h.rng.random() < 0.5 else ()))


def _ended(h: Hostile, program: ir.Program) -> ir.Program:
    """With lifetimes, right ones mostly."""
    try:
        return program if h.bad() else derive_frees(program)
    except Exception:  # the pass may rely on the verifier's checks, which the test runs next
        return program
