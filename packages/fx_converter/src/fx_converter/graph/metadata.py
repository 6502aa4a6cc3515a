"""Fake values for `node.meta["val"]`. They follow from the types of values; nothing is run."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fx_converter import targets
from fx_converter._compat import back_symbol, bound_symbol, fake_like, free_size, new_fake_mode
from fx_converter.graph.numbers import CALLS, Calculator
from fx_converter.nodes import Number, Symbolic, Target
from fx_converter.targets.symbolic import EXACT, FUNCTIONS, PARTIAL, Function, NoValue
from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import Expr, Sym, SymKind
from wrapper_ir.expr.operators import ADD, AND, OPERATORS, OR, ROUND, UNARY_FUNCTIONS
from wrapper_ir_torch import DTYPES, torch_device

_UNBACKED = {SymKind.INT: "u", SymKind.FLOAT: "zuf", SymKind.BOOL: "u"}
_CONCRETE = frozenset(
    f for f in (*map(CALLS.__getitem__, UNARY_FUNCTIONS), *PARTIAL.values()) if f.__module__ == math.__name__
) - {math.floor, math.ceil}
"""Functions that accept plain numbers only."""
_NAMED: Mapping[Target, Mapping[str, Function]] = {targets.partial_call: PARTIAL, targets.total_call: EXACT}
"""Functions whose first argument names another."""
_NAMES: Mapping[Target, str] = {
    **{f: name for names in (EXACT, FUNCTIONS) for name, f in reversed([*names.items()])},
    targets.both: AND.name,
    targets.either: OR.name,
}
"""The operators that functions of numbers implement."""
_BACKED = {SymKind.INT: "s", SymKind.FLOAT: "zf", SymKind.BOOL: "s"}
_FIRST_NUMBER = 1_000_000
"""The first number in replacements of names that torch does not parse as unbacked; torch's own start at 0."""


class FakeValues:
    """Symbolic numbers and fake tensors over the symbols of one program."""

    def __init__(self, program: ir.Program, mode: FakeTensorMode | None) -> None:
        self.mode = mode or new_fake_mode()
        if self.mode.shape_env is None:
            self.mode.shape_env = new_fake_mode().shape_env
        self._declared = {s.name: s for s in program.symbols}
        self._numbers = _numbers(program)
        self.kinds: Mapping[str, SymKind] = _Kinds({name: s.kind for name, s in self._declared.items()})
        """The kinds of symbols by name, including torch's names of unknown numbers."""
        self._symbols: dict[str, Symbolic] = {}
        self._renamed: dict[sympy.Symbol, sympy.Symbol] = {}
        self._meta: dict[FakeTensor, Tensor] = {}
        self.number: Calculator[Number] = Calculator(self._leaf, self._apply)

    # --- numbers

    def symbol(self, name: str) -> Symbolic:
        """Returns the symbolic number of a declared symbol."""
        if name not in self._symbols:
            unknown = ir.SymbolDef(name=name, kind=_kind_of(name), backed=False)
            self._symbols[name] = self._make(self._declared.get(name) or unknown)
        return self._symbols[name]

    def _make(self, declared: ir.SymbolDef) -> Symbolic:
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
                return SymInt(SymNode(symbol, env, int, hint))  # type: ignore[no-untyped-call]  # torch's
            case SymKind.FLOAT:
                return SymFloat(SymNode(symbol, env, float, hint))  # type: ignore[no-untyped-call]  # torch's
            case SymKind.BOOL:
                node = SymNode(sympy.Eq(symbol, 1), env, bool, hint)
                return SymBool(node)  # type: ignore[no-untyped-call]  # torch's

    def _torch_name(self, declared: ir.SymbolDef, backed: bool) -> str:
        """Returns the symbol's name in torch, which derives the kind of a symbol from the prefix of its name
        (in either case), and the index of an unbacked symbol from its digits."""
        name, prefix = declared.name, (_BACKED if backed else _UNBACKED)[declared.kind]
        if not backed:
            fits = re.fullmatch(f"{prefix}(0|[1-9][0-9]*)", name, re.ASCII)
            return name if fits else f"{prefix}{self._numbers.get(name, _FIRST_NUMBER)}"
        # Inductor regards an int with any other name as one of its indices.
        size = declared.kind is SymKind.INT
        plain = name.lower().startswith(prefix) or not (size or name.lower().startswith(("u", "z")))
        return name if plain else f"{prefix}_{name}"

    def by_declared_name(self, expr: sympy.Expr) -> sympy.Expr:
        """Returns the expression over the names that the program declares."""
        return expr.xreplace(self._renamed)

    def _leaf(self, e: Expr) -> Number:
        match e:
            case Sym(name):
                return self.symbol(name)
            case ir.SizeOf() | ir.StrideOf() | ir.OffsetOf() | ir.Item():
                raise AssertionError(f"types contain no atoms: {e}")
            case _:
                raise AssertionError(type(e).__name__)

    def numbers(self, exprs: Sequence[Expr]) -> tuple[int | SymInt, ...]:
        """Returns the numbers of a shape."""
        return tuple(cast("int | SymInt", self.number(e)) for e in exprs)  # sizes are ints

    def apply(self, function: Function, *args: Number | str | None) -> Number | None:
        """Returns the result of a call of numbers; None if an argument is None."""
        if any(arg is None for arg in args):
            return None
        return self._apply(function, *args)

    def _apply(self, function: Function, *args: Any) -> Number:  # Any: numbers, after the name for `_NAMED`
        """Returns an unknown number for calls without a symbolic variant, in which Python would use the
        symbols' hints."""
        callee, numbers = function, args
        if function in _NAMED:
            callee, numbers = _NAMED[function][args[0]], args[1:]
        if callee in _CONCRETE and any(isinstance(arg, SymInt | SymFloat) for arg in numbers):
            return self.unknown(SymKind.FLOAT)
        if (callee is targets.power and _is_open_power(*numbers)) or (
            callee is round and len(numbers) > 1 and isinstance(numbers[1], SymInt)
        ):
            return self.unknown(_kind_of_call(function, args))
        try:
            result = function(*args)
        except (ArithmeticError, ExpressionError, GuardOnDataDependentSymNode):
            result = (
                None  # an error that a run raises when it reaches the call, or a guard on an unbacked size
            )
        if result is None or isinstance(result, NoValue):
            return self.unknown(_kind_of_call(function, args))
        return result

    def unknown(self, kind: SymKind) -> Symbolic:
        """Returns an unbacked number whose name the program does not declare."""
        env = self.mode.shape_env
        assert env is not None
        make: Mapping[SymKind, Callable[[], Symbolic]] = {
            SymKind.INT: env.create_unbacked_symint,
            SymKind.FLOAT: env.create_unbacked_symfloat,
            SymKind.BOOL: env.create_unbacked_symbool,
        }
        number = make[kind]()
        while {str(s) for s in number.node.expr.free_symbols} & self._declared.keys():
            number = make[kind]()
        return number

    # --- tensors

    def tensor(self, type: ir.TensorType) -> FakeTensor:
        """Returns a tensor with a new storage."""
        sizes, strides = tuple(map(free_size, self.numbers(type.sizes))), self.numbers(type.strides)
        env = self.mode.shape_env
        assert env is not None
        with env.suppress_guards():  # torch's queries here must not narrow ranges
            meta = torch.empty_strided(sizes, strides, dtype=DTYPES[type.dtype], device="meta")
        return self._fake(meta, type)

    def view(self, base: object, type: ir.TensorType, offset: int | None) -> FakeTensor:
        """Returns a tensor over the storage of `base`, `offset` elements from its first one. It has a new
        storage if the element type differs, or if torch would have to guard on a symbol."""
        meta = self._meta.get(base) if isinstance(base, FakeTensor) else None
        sizes, strides = self.numbers(type.sizes), self.numbers(type.strides)
        static = all(isinstance(n, int) for n in (*sizes, *strides))
        if meta is None or offset is None or not static or meta.dtype != DTYPES[type.dtype]:
            return self.tensor(type)
        start = meta.storage_offset()
        if not isinstance(start, int):
            return self.tensor(type)
        return self._fake(torch.as_strided(meta, sizes, strides, start + offset), type)

    def offset(self, fake: object) -> int | SymInt | None:
        """Returns the position of a fake tensor in its storage, in elements; None for other values."""
        return fake.storage_offset() if isinstance(fake, FakeTensor) else None

    def _fake(self, meta: Tensor, type: ir.TensorType) -> FakeTensor:
        fake = fake_like(self.mode, meta, torch_device(type.device))
        self._meta[fake] = meta
        return fake


def _kind_of_call(
    function: Function, args: Sequence[Any]
) -> SymKind:  # Any: numbers, after the name for `_NAMED`
    """Returns the kind of a call's result."""
    name = _NAMES.get(function, "add")
    if function in _NAMED:
        name, *args = args
    op, kinds = OPERATORS.by_name.get(name, ADD), tuple(map(_kind_of_number, args))
    if op in (AND, OR) and SymKind.INT in kinds:  # Python's `&` and `|` are those of ints, too
        return SymKind.INT
    return SymKind.FLOAT if op is ROUND and len(kinds) > 1 else op.result(kinds)


def _kind_of_number(number: Number) -> SymKind:
    if isinstance(number, bool | SymBool):
        return SymKind.BOOL
    return SymKind.FLOAT if isinstance(number, float | SymFloat) else SymKind.INT


def _is_open_power(base: Number, exponent: Number) -> bool:
    """Returns whether torch would evaluate a power with hints."""
    if not isinstance(base, SymInt | SymFloat):
        return isinstance(exponent, SymInt | SymFloat)
    return isinstance(base, SymFloat) or not isinstance(exponent, int) or exponent < 0


def _numbers(program: ir.Program) -> dict[str, int]:
    """Returns a number for each declared symbol that no declared name contains."""
    names = {symbol.name for symbol in program.symbols}
    free = (n for n in itertools.count(_FIRST_NUMBER) if not {f"{p}{n}" for p in _UNBACKED.values()} & names)
    return {symbol.name: next(free) for symbol in program.symbols}


def _kind_of(name: str) -> SymKind:
    """Returns the kind of an unknown number from torch's name for it."""
    return SymKind.FLOAT if name.startswith("z") else SymKind.INT


class _Kinds(dict[str, SymKind]):
    """Kinds of symbols by name. For names that are not declared, the prefix determines the kind."""

    def get(self, name: str, default: object = None) -> SymKind:
        """Returns the kind of a name."""
        return super().get(name) or _kind_of(name)
