"""Fake values for `node.meta["val"]`: every value has a type, so nothing has to be run to know what it looks like."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fx_converter import targets
from fx_converter._compat import back_symbol, bound_symbol, fake_like, free_size, new_fake_mode
from fx_converter.graph.numbers import CALLS, Calculator
from fx_converter.targets.symbolic import EXACT, FUNCTIONS, PARTIAL, NoValue
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Sym, SymKind
from wrapper_ir.expr.operators import ADD, AND, OPERATORS, OR, ROUND, UNARY_FUNCTIONS
from wrapper_ir_torch import DTYPES, torch_device

# Any in this file: numbers, symbolic or not.
_UNBACKED = {SymKind.INT: "u", SymKind.FLOAT: "zuf", SymKind.BOOL: "u"}
_CONCRETE = frozenset(
    f for f in (*map(CALLS.__getitem__, UNARY_FUNCTIONS), *PARTIAL.values()) if f.__module__ == math.__name__
) - {math.floor, math.ceil}
"""Functions of plain numbers only."""
_NAMED: Mapping[Callable[..., Any], Mapping[str, Callable[..., Any]]] = {
    targets.partial_call: PARTIAL,
    targets.total_call: EXACT,
}
"""Functions that are given the name of another."""
_NAMES: Mapping[Callable[..., Any], str] = {
    **{f: name for names in (EXACT, FUNCTIONS) for name, f in reversed([*names.items()])},
    targets.both: AND.name,
    targets.either: OR.name,
}
"""The operators that functions of numbers stand for."""
_BACKED = {SymKind.INT: "s", SymKind.FLOAT: "zf", SymKind.BOOL: "s"}
_FIRST_NUMBER = 1_000_000
"""Of symbols whose names torch does not take for unbacked ones; torch counts its own from 0."""


class FakeValues:
    """Symbolic numbers and fake tensors over the symbols of one program."""

    def __init__(self, program: ir.Program, mode: FakeTensorMode | None) -> None:
        self.mode = mode or new_fake_mode()
        if self.mode.shape_env is None:
            self.mode.shape_env = new_fake_mode().shape_env
        self._declared = {s.name: s for s in program.symbols}
        self._numbers = _numbers(program)
        self.kinds: Mapping[str, SymKind] = _Kinds({name: s.kind for name, s in self._declared.items()})
        """The kinds of symbols by name, those of torch's own names for unknown numbers too."""
        self._symbols: dict[str, Any] = {}
        self._renamed: dict[sympy.Symbol, sympy.Symbol] = {}
        self._meta: dict[FakeTensor, Tensor] = {}
        self.number = Calculator(self._leaf, self._apply)

    # --- numbers

    def symbol(self, name: str) -> Any:
        """The symbolic number of a declared symbol."""
        if name not in self._symbols:
            unknown = ir.SymbolDef(name=name, kind=_kind_of(name), backed=False)
            self._symbols[name] = self._make(self._declared.get(name) or unknown)
        return self._symbols[name]

    def _make(self, declared: ir.SymbolDef) -> Any:
        env = self.mode.shape_env
        assert env is not None
        backed = declared.backed and declared.hint is not None
        name = self._torch_name(declared, backed)
        integer = declared.kind is not SymKind.FLOAT
        symbol = sympy.Symbol(name, integer=True) if integer else sympy.Symbol(name, real=True)
        if name != declared.name:
            self._renamed[symbol] = sympy.Symbol(declared.name, **symbol.assumptions0)
        bound_symbol(env, symbol, declared.lower, declared.upper)
        if backed and integer:
            assert declared.hint is not None
            back_symbol(env, symbol, int(declared.hint))
        hint = declared.hint if backed else None
        match declared.kind:
            case SymKind.INT:
                return SymInt(SymNode(symbol, env, int, hint))  # type: ignore[no-untyped-call]  # torch leaves it so
            case SymKind.FLOAT:
                return SymFloat(SymNode(symbol, env, float, hint))  # type: ignore[no-untyped-call]  # torch leaves it so
            case SymKind.BOOL:
                return SymBool(SymNode(sympy.Eq(symbol, 1), env, bool, hint))  # type: ignore[no-untyped-call]  # torch leaves it so

    def _torch_name(self, declared: ir.SymbolDef, backed: bool) -> str:
        """Torch tells symbols apart by how their names begin, in either case, and reads the number after the beginning of an
        unbacked one's."""
        name, prefix = declared.name, (_BACKED if backed else _UNBACKED)[declared.kind]
        if not backed:
            fits = re.fullmatch(f"{prefix}(0|[1-9][0-9]*)", name, re.ASCII)
            return name if fits else f"{prefix}{self._numbers.get(name, _FIRST_NUMBER)}"
        size = (
            declared.kind is SymKind.INT
        )  # Inductor takes an int with any other name for an index of its own
        plain = name.lower().startswith(prefix) or not (size or name.lower().startswith(("u", "z")))
        return name if plain else f"{prefix}_{name}"

    def by_declared_name(self, expr: sympy.Expr) -> sympy.Expr:
        """An expression over the names that the program declares."""
        return expr.xreplace(self._renamed)

    def _leaf(self, e: Expr) -> Any:
        match e:
            case Sym(name):
                return self.symbol(name)
            case ir.SizeOf() | ir.StrideOf() | ir.OffsetOf() | ir.Item():
                raise AssertionError(f"types hold no atoms: {e}")
            case _:
                raise AssertionError(type(e).__name__)

    def numbers(self, exprs: Sequence[Expr]) -> tuple[Any, ...]:
        """The numbers of a shape."""
        return tuple(self.number(e) for e in exprs)

    def apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a call of numbers gives; None where that cannot be known."""
        if any(arg is None for arg in args):
            return None
        return self._apply(function, *args)

    def _apply(self, function: Callable[..., Any], *args: Any) -> Any:
        """What has no symbolic variant is an unknown number, where Python would look at the symbols' hints."""
        called, numbers = function, args
        if function in _NAMED:
            called, numbers = _NAMED[function][args[0]], args[1:]
        if called in _CONCRETE and any(isinstance(arg, SymInt | SymFloat) for arg in numbers):
            return self.unknown(SymKind.FLOAT)
        if (called is targets.power and _is_open_power(*numbers)) or (
            called is round and len(numbers) > 1 and isinstance(numbers[1], SymInt)
        ):
            return self.unknown(_kind_of_call(function, args))
        try:
            found = function(*args)
        except (ArithmeticError, ExpressionError, GuardOnDataDependentSymNode):
            found = (
                None  # it never has a value, and a run says so if it gets there; or torch cannot say which
            )
        if found is None or isinstance(found, NoValue):
            return self.unknown(_kind_of_call(function, args))
        return found

    def unknown(self, kind: SymKind) -> Any:
        """A number that only a run can tell, under no name of the program's."""
        env = self.mode.shape_env
        assert env is not None
        make: Mapping[SymKind, Callable[[], Any]] = {
            SymKind.INT: env.create_unbacked_symint,
            SymKind.FLOAT: env.create_unbacked_symfloat,
            SymKind.BOOL: env.create_unbacked_symbool,
        }
        made = make[kind]()
        while {str(s) for s in made.node.expr.free_symbols} & self._declared.keys():
            made = make[kind]()
        return made

    # --- tensors

    def tensor(self, type: ir.TensorType) -> FakeTensor:
        """A tensor with a storage of its own."""
        sizes, strides = tuple(map(free_size, self.numbers(type.sizes))), self.numbers(type.strides)
        env = self.mode.shape_env
        assert env is not None
        with env.suppress_guards():  # no range is narrowed by what torch asks here
            meta = torch.empty_strided(sizes, strides, dtype=DTYPES[type.dtype], device="meta")
        return self._fake(meta, type)

    def view(self, base: object, type: ir.TensorType, offset: int | None) -> FakeTensor:
        """A tensor over the storage of `base`, `offset` elements from its first one; with a storage of its own where
        torch cannot say without guarding on a symbol, or the element type is another."""
        meta = self._meta.get(base) if isinstance(base, FakeTensor) else None
        sizes, strides = self.numbers(type.sizes), self.numbers(type.strides)
        static = all(isinstance(n, int) for n in (*sizes, *strides))
        if meta is None or offset is None or not static or meta.dtype != DTYPES[type.dtype]:
            return self.tensor(type)
        start = meta.storage_offset()
        if not isinstance(start, int):
            return self.tensor(type)
        return self._fake(torch.as_strided(meta, sizes, strides, start + offset), type)

    def offset(self, fake: object) -> Any:
        """Where a fake tensor begins in its storage, in elements; None for what is none."""
        return fake.storage_offset() if isinstance(fake, FakeTensor) else None

    def _fake(self, meta: Tensor, type: ir.TensorType) -> FakeTensor:
        fake = fake_like(self.mode, meta, torch_device(type.device))
        self._meta[fake] = meta
        return fake


def _kind_of_call(function: Callable[..., Any], args: Sequence[Any]) -> SymKind:
    """What a call of numbers gives."""
    name = _NAMES.get(function, "add")
    if function in _NAMED:
        name, *args = args
    op, kinds = OPERATORS.by_name.get(name, ADD), tuple(map(_kind_of_number, args))
    if op in (AND, OR) and SymKind.INT in kinds:  # Python's `&` and `|` are those of ints, too
        return SymKind.INT
    return SymKind.FLOAT if op is ROUND and len(kinds) > 1 else op.result(kinds)


def _kind_of_number(number: Any) -> SymKind:
    if isinstance(number, bool | SymBool):
        return SymKind.BOOL
    return SymKind.FLOAT if isinstance(number, float | SymFloat) else SymKind.INT


def _is_open_power(base: Any, exponent: Any) -> bool:
    """Whether torch would look at hints to say what a power is."""
    if not isinstance(base, SymInt | SymFloat):
        return isinstance(exponent, SymInt | SymFloat)
    return isinstance(base, SymFloat) or not isinstance(exponent, int) or exponent < 0


def _numbers(program: ir.Program) -> dict[str, int]:
    """A number for each declared symbol, which no declared name has."""
    names = {symbol.name for symbol in program.symbols}
    free = (n for n in itertools.count(_FIRST_NUMBER) if not {f"{p}{n}" for p in _UNBACKED.values()} & names)
    return {symbol.name: next(free) for symbol in program.symbols}


def _kind_of(name: str) -> SymKind:
    """As torch names unknown numbers."""
    return SymKind.FLOAT if name.startswith("z") else SymKind.INT


class _Kinds(dict[str, SymKind]):
    """Names that are not declared have the kind that their spelling says."""

    def get(self, name: str, default: object = None) -> SymKind:
        """The kind of a name."""
        return super().get(name) or _kind_of(name)
