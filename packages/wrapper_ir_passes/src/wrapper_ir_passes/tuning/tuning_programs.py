"""Reduces a program to its launches with a choice, each as a separate program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.sizes import Sizes, declared_size
from wrapper_ir.expr import Bool, Expr, Float, Int, SymKind, as_expr
from wrapper_ir.expr.rewrite import map_atoms
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

TypeT = TypeVar("TypeT", bound=ir.Type)
Held = ir.Value[ir.StorageType] | ir.Value[ir.TensorType]

_FALLBACK = 8192
_START = Int(0)
_STAND_INS: Mapping[SymKind, Expr] = {
    SymKind.INT: Int(1),
    SymKind.FLOAT: Float(1.0),
    SymKind.BOOL: Bool(True),
}
"""Value for numbers that are known at run time only: elements of tensors, and arguments that are numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningProgram:
    """One launch as a program without symbols; its sizes are numbers. The original has `count` such launches.

    Parameters of `main` are the launch's tensors of floating-point, complex and bool numbers, whose values do
    not matter. Tensors of integers may be indices: constants keep their data, others are zeros, which are
    valid indices. Scratch memory that the program has zeroed starts as zeros. `assumed` are the symbols
    without known values on which the launch's numbers depend.
    """

    program: ir.Program
    count: int
    assumed: frozenset[str] = frozenset()

    @property
    def launch(self) -> ir.Launch:
        """The launch with the choice."""
        [op] = (op for op in self.program.main.ops_of(ir.Launch))
        return op

    def numbers(self, kernel: str) -> tuple[int | float, ...]:
        """Returns the numeric arguments of `kernel`, then the numbers of its grid.

        `kernel` is launched, or is one of the kernels of a launched multi-kernel.
        """
        launch = self.launch
        args, grid = launch.args, launch.grid
        if kernel != launch.kernel:
            multi = self.program.kernel(launch.kernel)
            assert isinstance(multi, ir.MultiKernel)
            variant = next(v for v in multi.variants if v.kernel == kernel)
            args, grid = tuple(args[i] for i in variant.args), tuple(grid[i] for i in variant.grid)
        return tuple(a.value for a in (*args, *grid) if isinstance(a, Int | Float | Bool))


def tuning_programs(
    program: ir.Program, numbers: Mapping[str, int] | None = None, *, fallback: int = _FALLBACK
) -> tuple[TuningProgram, ...]:
    """Returns the launches of all functions with a choice, of a config or of a kernel; equal ones once.

    Sizes follow from `numbers`, then from the symbols' hints and definitions; an unknown symbol gets
    `fallback`, within its bounds.
    """
    numbers = numbers or {}
    sizes, assumed = _sizes(program, numbers, fallback)
    roots = _roots(program, {*numbers, *(s.name for s in program.symbols if s.hint is not None)}, assumed)
    kernels = {k.name: k for k in program.kernels}
    launches: dict[ir.Program, tuple[int, frozenset[str]]] = {}
    for function in program.functions:
        origins = {value: op for op in function.body for value in ir.results(op)}
        for op in function.ops_of(ir.Launch):
            if _leaves_a_choice(kernels[op.kernel], kernels):
                reduction = _Reduction(program, origins, sizes)
                one = reduction.reduced(op)
                rests_on = frozenset[str]().union(*(roots.get(name, ()) for name in reduction.symbols))
                count, other = launches.get(one, (0, rests_on))
                launches[one] = count + 1, min(rests_on, other, key=len)
    return tuple(TuningProgram(program=p, count=n, assumed=rest) for p, (n, rest) in launches.items())


def _sizes(program: ir.Program, numbers: Mapping[str, int], fallback: int) -> tuple[Sizes, frozenset[str]]:
    """Returns numbers for all symbols, and the assumed symbols.

    Unknown symbols are assumed one by one, in the order of definitions, because later ones may follow from
    them.
    """
    declared = {s.name: s for s in program.symbols}
    defined = [op.symbol for op in program.ops_of(ir.Define)]
    values = dict(numbers)
    while assumed := (sizes := Sizes(program, values)).assumed:
        name = next(n for n in (*defined, *declared) if n in assumed)
        symbol = declared[name]
        upper = fallback if symbol.upper is None else min(fallback, symbol.upper)
        values[name] = max(upper, symbol.lower or 0)
    return sizes, frozenset(values.keys() - numbers.keys())


def _roots(program: ir.Program, symbols: set[str], assumed: frozenset[str]) -> dict[str, frozenset[str]]:
    """For each symbol, the assumed symbols that determine it; known symbols have none."""
    roots = {name: frozenset({name}) for name in assumed}
    for op in program.ops_of(ir.Define):
        if op.symbol not in symbols and op.symbol not in roots:
            sources = map_atoms(op.expr, declared_size).free_symbols
            roots[op.symbol] = frozenset[str]().union(*(roots.get(name, ()) for name in sources))
    return roots


def _leaves_a_choice(kernel: ir.KernelDef, kernels: Mapping[str, ir.KernelDef]) -> bool:
    match kernel:
        case ir.TritonKernel():
            return len(kernel.configs) > 1 or bool(kernel.derive)
        case ir.MultiKernel():
            several = kernel.choice is ir.Choice.MEASURE and len(kernel.variants) > 1
            return several or any(_leaves_a_choice(kernels[v.kernel], kernels) for v in kernel.variants)
        case _:
            return False


@dataclass(slots=True)
class _Reduction:
    """The parts of a program that one launch needs."""

    whole: ir.Program
    origins: Mapping[ir.Value, ir.Op]
    sizes: Sizes
    constants: dict[ir.Value, ir.Constant] = field(init=False)
    needs: set[ir.Value] = field(default_factory=set, init=False)
    """The constants whose data the launch needs."""
    params: list[ir.Param] = field(default_factory=list, init=False)
    body: list[ir.Op] = field(default_factory=list, init=False)
    replacements: dict[ir.Value, Held] = field(default_factory=dict, init=False)
    """Values of the whole program, and their replacements."""
    symbols: set[str] = field(default_factory=set, init=False)
    """The symbols that determine the launch's numbers."""
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.constants = {c.value: c for c in self.whole.constants}
        self.names = {value.name for value in self.constants}

    def reduced(self, launch: ir.Launch) -> ir.Program:
        kernel = self.whole.kernel(launch.kernel)
        extents = iter([self._size(e) for e in launch.extents])
        args: list[ir.Arg] = []
        for param, arg in zip(kernel.params, launch.args, strict=True):
            touched = next(extents, 0) if param.kind.takes_tensor else 0
            args.append(self._arg(param.name, arg, touched))
        self.body.append(
            dataclasses.replace(
                launch,
                prov=ir.UNKNOWN,
                args=tuple(args),
                extents=tuple(Int(self._size(e)) for e in launch.extents),
                grid=tuple(self._number(e) for e in launch.grid),
                stream=0,
            )
        )
        body = (*self.body, ir.Return(values=()))
        main = ir.Function(name=self.whole.main.name, params=tuple(self.params), body=body)
        return derive_frees(
            ir.Program(
                functions=(main,),
                target=self.whole.target,
                constants=tuple(c for c in self.whole.constants if c.value in self.needs),
                kernels=ir.needed(self.whole.kernels, {launch.kernel}),
            )
        )

    def _arg(self, name: str, arg: ir.Arg, touched: int) -> ir.Arg:
        match arg:
            case ir.Value(type=ir.ScalarType(kind=kind)):
                return _STAND_INS[kind]
            case ir.Value():
                if arg not in self.replacements:
                    assert ir.is_tensor(arg)  # kernels have no other arguments
                    self.replacements[arg] = self._kept(arg) or self._made(
                        name, self._static(arg.type), touched
                    )
                return self.replacements[arg]
            case Expr():
                return self._number(arg)
            case _:
                return arg

    def _number(self, e: Expr) -> Expr:
        e = map_atoms(e, _stand_in)
        self._note(e)
        return as_expr(self.sizes.value(e))

    def _size(self, e: Expr) -> int:
        self._note(e)
        return self.sizes.number(e)

    def _note(self, e: Expr) -> None:
        """Adds these symbols."""
        self.symbols |= map_atoms(e, declared_size).free_symbols

    def _static(self, type: ir.TensorType) -> ir.TensorType:
        sizes, strides = ([Int(self._size(e)) for e in dims] for dims in (type.sizes, type.strides))
        return dataclasses.replace(type, sizes=tuple(sizes), strides=tuple(strides))

    def _kept(self, value: ir.Value) -> Held | None:
        """Returns a constant that may contain indices, scratch memory that starts as zeros, or a view of
        these.
        """
        if value in self.constants:
            if not ir.is_tensor(value) or not _may_be_indices(value.type.dtype):
                return None
            self.needs.add(value)
            return value
        if value not in self.replacements:
            match self.origins.get(value):
                case ir.AllocStorage(zero=ir.ZeroMode.CALL | ir.ZeroMode.ONCE) as op:
                    self.replacements[value] = self._storage(op, 0)
                case ir.Slot(zero=ir.ZeroMode.CALL) as op:
                    self.replacements[value] = self._storage(
                        ir.AllocStorage(result=op.result, zero=op.zero), 0
                    )
                case ir.View() as op if (source := self._kept(op.source)) is not None:
                    type = self._static(op.result.type)
                    self.replacements[value] = self._view(source, value.name, type, op.offset)
                case _:
                    return None
        return self.replacements[value]

    def _made(self, name: str, type: ir.TensorType, touched: int) -> ir.Value[ir.TensorType]:
        """Returns a tensor with generated contents, over as many bytes as the launch may touch."""
        own = self._size(ir.extent_bytes(type))
        if _may_be_indices(type.dtype):
            storage = ir.Value(f"{name}.s", ir.StorageType(nbytes=Int(own), device=type.device))
            allocation = ir.AllocStorage(result=storage, zero=ir.ZeroMode.CALL)
            return self._view(self._storage(allocation, touched), name, type)
        if touched <= own:
            return self._param(name, type)
        count = Int(-(-touched // type.dtype.itemsize))
        whole = dataclasses.replace(type, sizes=(count,), strides=(Int(1),))
        return self._view(self._param(f"{name}.whole", whole), name, type)

    def _param(self, name: str, type: ir.TensorType) -> ir.Value[ir.TensorType]:
        value = self._value(name, type)
        self.params.append(ir.Param(value=value))
        return value

    def _storage(self, like: ir.AllocStorage, nbytes: int) -> ir.Value[ir.StorageType]:
        """Storage of at least `nbytes` bytes that begins as zeros."""
        type = like.result.type
        size = Int(max(self._size(type.nbytes), nbytes))
        result = self._value(like.result.name, dataclasses.replace(type, nbytes=size))
        self.body.append(dataclasses.replace(like, result=result, stream=0))
        return result

    def _view(
        self,
        source: ir.Value[ir.StorageType | ir.TensorType],
        name: str,
        type: ir.TensorType,
        offset: Expr = _START,
    ) -> ir.Value[ir.TensorType]:
        result = self._value(name, type)
        self.body.append(ir.View(source=source, result=result, offset=Int(self._size(offset))))
        return result

    def _value(self, name: str, type: TypeT) -> ir.Value[TypeT]:
        """Returns a value with this name, or with underscores appended to make it unique."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        return ir.Value(name, type)


def _stand_in(atom: Expr) -> Expr:
    """Replaces values that a run reads from memory or from a caller's tensor."""
    match atom:
        case ir.Item():
            return _STAND_INS[atom.kind]
        case ir.OffsetOf():
            return Int(0)
        case _:
            return atom


def _may_be_indices(dtype: ir.DType) -> bool:
    return not (dtype.is_floating or dtype.is_complex or dtype is ir.DType.BOOL)
