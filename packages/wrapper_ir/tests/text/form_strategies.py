"""Hypothesis strategies of programs that need not be valid: every field of every op takes any value that has a text.

What they respect is what the forms rely on: names are unique where they are looked up, values are defined before they
are used, symbols are declared.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from packages.wrapper_ir.tests.text.kernel_strategies import ints, kernels, names, strings

from wrapper_ir.expr import OPERATORS, Bool, Expr, Float, Int, Operator, Sym, SymKind
from wrapper_ir.expr.leaves import RESERVED_NAMES
from wrapper_ir.ir.atoms import Item, OffsetOf, SizeOf, StrideOf
from wrapper_ir.ir.layout import contiguous_strides, extent_bytes
from wrapper_ir.ir.ops import (
    OPS,
    AllocPurpose,
    AllocStorage,
    Arg,
    Complex,
    FieldSpec,
    Op,
    OpBase,
    Provenance,
    Role,
    Shape,
    View,
    ViewMode,
    ZeroMode,
    op_spec,
)
from wrapper_ir.ir.program import (
    Constant,
    ConstantKind,
    Function,
    Ownership,
    Param,
    Program,
    SymbolDef,
    Target,
)
from wrapper_ir.ir.schemas import ExternDef, ExternTag
from wrapper_ir.ir.types import (
    Device,
    DType,
    Layout,
    MemoryFormat,
    MemoryKind,
    MemorySpace,
    OpaqueKind,
    OpaqueType,
    ScalarType,
    StorageType,
    TensorType,
    TupleType,
    Type,
)
from wrapper_ir.ir.values import Value

TypeT = TypeVar("TypeT", bound=Type)
Draw = Callable[..., Any]  # Any: what a strategy of any type draws

symbol_names = st.sampled_from(
    [
        "s0",
        "u0",
        "none",
        "f32",
        "device",
        "then",
        "zero",
        "stream",
        "pinned",
        "ab\u0301",
        "größe",
        "provenance",
    ]
)
devices = st.builds(
    Device, st.sampled_from(["cpu", "cuda", "odd type", "größe", ""]), st.none() | st.integers(-1, 9)
)
provenances = st.builds(
    Provenance,
    **dict.fromkeys(("nodes", "ops", "locations", "modules"), st.lists(strings, max_size=2).map(tuple)),
    frontend_name=strings,
)
spaces = st.builds(MemorySpace, st.sampled_from(MemoryKind), strings, ints)


# Strategies are made once, which is what makes them fast: symbols and values are placeholders that a scope replaces.
_PLACES = tuple(Sym(f"place{n}") for n in range(4))
_VALUES = tuple(Value(f"place{n}", TupleType()) for n in range(4))


def _nodes(e: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def applied(op: Operator) -> st.SearchStrategy[Expr]:
        return st.lists(e, min_size=op.arity or 2, max_size=op.arity or 3).map(lambda args: op(*args))

    return st.sampled_from(OPERATORS.rows).flatmap(applied)


_values = st.sampled_from(_VALUES)
_dims = st.integers(0, 3)
_floats = st.builds(Float, st.floats())
_leaves = st.one_of(
    st.builds(Int, ints),
    _floats,
    st.builds(Bool, st.booleans()),
    st.sampled_from(_PLACES),
)
_atoms = st.one_of(
    *(st.builds(cls, _values, _dims) for cls in (SizeOf, StrideOf)),
    *(st.builds(cls, _values) for cls in (OffsetOf, Item)),
)
_sizes = st.recursive(_leaves, _nodes, max_leaves=6)
_exprs = st.recursive(_leaves | _atoms, _nodes, max_leaves=6)
_expr_lists = st.lists(_exprs, max_size=3).map(tuple)
_SHAPES = tuple[tuple[Expr, ...], ...]
_size_lists = st.lists(_sizes, max_size=3).map(tuple)
_tensors = st.builds(TensorType, st.sampled_from(DType), _size_lists, st.just(()) | _size_lists, devices)
_other_types = st.one_of(
    st.builds(ScalarType, st.sampled_from(SymKind)),
    st.just(TupleType()),
    st.builds(OpaqueType, st.sampled_from(OpaqueKind), strings),
)
_storages = st.builds(StorageType, _sizes, devices, spaces, st.sampled_from((1, 8, 64, 256)))
_args: st.SearchStrategy[Arg] = st.recursive(
    st.one_of(
        st.none(),
        strings,
        st.sampled_from([*DType, *MemoryFormat, *Layout]),
        devices,
        st.builds(Complex, _floats, _floats),
        _exprs,
        _values,
    ),
    lambda a: st.lists(a, max_size=3).map(tuple),
    max_leaves=5,
)


class _Scope:
    """What one function's ops may mention; defines values under unique names."""

    def __init__(self, draw: Draw, symbols: dict[str, SymKind], outer: list[Value]) -> None:
        self.draw = draw
        self.symbols = symbols
        self.values = list(outer)
        self.usable = [Sym(n, k) for n, k in symbols.items() if n.isidentifier() and n not in RESERVED_NAMES]

    def define(self, type: TypeT, wish: str | None = None) -> Value[TypeT]:
        taken = {v.name for v in self.values}
        name = self.draw(names) if wish is None else wish
        while name in taken:
            name += "_"
        value = Value(name, type)
        self.values.append(value)
        return value

    def bind(self, x: Any) -> Any:  # Any: whatever a strategy of a field makes
        """`x` with placeholders replaced by symbols and values of this scope."""
        match x:
            case tuple():
                return tuple(self.bind(item) for item in x)
            case Value():
                return self.values[int(x.name[-1]) % len(self.values)] if self.values else None
            case Sym(name):
                return self.usable[int(name[-1]) % len(self.usable)] if self.usable else Int(1)
            case SizeOf() | StrideOf() | OffsetOf() | Item() if not self.values:
                return Int(0)
            case Expr():
                return type(x)(*(self.bind(getattr(x, name)) for name in x.__match_args__))  # its own fields
            case _:
                return x

    def tensor(self) -> TensorType:
        """A tensor type, contiguous where the strategy gives no strides."""
        drawn: TensorType = self.draw(_tensors)
        sizes = self.bind(drawn.sizes)
        strides = self.bind(drawn.strides) or contiguous_strides(sizes)
        return TensorType(drawn.dtype, sizes, strides, drawn.device)

    def storage(self) -> StorageType:
        drawn: StorageType = self.draw(_storages)
        return StorageType(self.bind(drawn.nbytes), drawn.device, drawn.space, drawn.alignment)

    def any_type(self) -> Type:
        match self.draw(st.integers(0, 2)):
            case 0:
                return self.tensor()
            case 1:
                return self.storage()
            case _:
                found: Type = self.draw(_other_types)
                return found

    def type_of(self, accepts: tuple[type, ...]) -> Type:
        """A type of one of these classes."""
        cls = self.draw(st.sampled_from(accepts))
        if cls is TensorType:
            return self.tensor()
        found: Type = self.storage() if cls is StorageType else self.draw(_of_class[cls])
        return found

    def operand(self, accepts: tuple[type, ...]) -> Value | None:
        """A value in scope of one of these types."""
        fitting = [v for v in self.values if isinstance(v.type, accepts)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def field(self, field: FieldSpec) -> Any:  # Any: the field's own type
        """Something for a field; None where there is nothing (no operand, no symbol)."""
        if field.role is Role.SYMBOL:
            return self.draw(st.sampled_from(sorted(self.symbols))) if self.symbols else None
        if field.role is Role.USE:
            count = self.draw(st.integers(0, 3)) if field.shape is Shape.MANY else 1
            found = [self.operand(field.accepts) for _ in range(count)]
            return tuple(v for v in found if v is not None) if field.shape is Shape.MANY else found[0]
        strategy = _BY_ROLE.get((field.role, field.shape))
        if strategy is None and isinstance(field.hint, type) and issubclass(field.hint, enum.Enum):
            strategy = st.sampled_from(field.hint)
        return self.bind(self.draw(_FIELDS[field.hint] if strategy is None else strategy))

    def ops(self) -> tuple[Op, ...]:
        """An op, or an allocation with its view."""
        cls = self.draw(st.sampled_from([*OPS, AllocStorage]))
        prov = self.draw(st.just(Provenance()) | provenances)
        if cls is AllocStorage:
            return self.alloc(prov)
        return self.op(cls, prov)

    def shapes(self, found: dict[str, Any]) -> tuple[Any, ...] | None:  # Any: see `op`
        """As many lists of sizes as there are tensors, of which there is one at least."""
        return tuple(self.bind(self.draw(_size_lists)) for _ in found["tensors"]) or None

    def op(self, cls: type[OpBase], prov: Provenance) -> tuple[Op, ...]:
        found: dict[str, Any] = {"prov": prov}  # Any: fields of any type
        spec = op_spec(cls)
        for field in spec.fields:
            if field.role is not Role.DEF:
                found[field.name] = self.shapes(found) if field.hint == _SHAPES else self.field(field)
                if found[field.name] is None and field.role is not Role.ARG:
                    return ()
        for field in spec.results:
            count = {Shape.ONE: 1, Shape.OPTIONAL: self.draw(st.integers(0, 1))}.get(field.shape)
            made = [
                self.define(self.type_of(field.accepts))
                for _ in range(self.draw(st.integers(0, 2)) if count is None else count)
            ]
            found[field.name] = tuple(made) if field.shape is Shape.MANY else made[0] if made else None
        make: type[Any] = cls  # Any: its fields are known here only by their annotations
        op: Op = make(**found)
        return (op,)

    def alloc(self, prov: Provenance) -> tuple[Op, ...]:
        """Mostly such that the one-line form fits, with a fault now and then."""
        draw = self.draw
        type_ = self.tensor()
        name = draw(names)
        while name in {v.name for v in self.values}:
            name += "_"
        fits = draw(st.booleans()) and len(type_.sizes) == len(type_.strides)
        made = StorageType(extent_bytes(type_), type_.device) if fits else self.storage()
        storage = self.define(made, f"{name}.s")
        alloc = AllocStorage(
            result=storage,
            purpose=draw(st.sampled_from(AllocPurpose)),
            zero=draw(st.sampled_from(ZeroMode)),
            stream=draw(st.integers(-1, 2)),
            prov=prov,
        )
        view = View(
            source=storage,
            result=self.define(type_, name),
            mode=draw(st.sampled_from(ViewMode)),
            offset=self.bind(draw(st.just(Int(0)) | _sizes)),
            prov=draw(st.just(prov) | provenances),
        )
        return (alloc, view)


_of_class: dict[type, st.SearchStrategy[Any]] = {  # Any: each of its class
    ScalarType: st.builds(ScalarType, st.sampled_from(SymKind)),
    TupleType: st.just(TupleType()),
    OpaqueType: st.builds(OpaqueType, st.sampled_from(OpaqueKind), strings),
}
_BY_ROLE: dict[tuple[Role, Shape], st.SearchStrategy[Any]] = {  # Any: each of its field's type
    (Role.ARG, Shape.ONE): _args,
    (Role.ARG, Shape.MANY): st.lists(_args, max_size=3).map(tuple),
    (Role.ARG, Shape.NAMED): st.lists(st.tuples(names, _args), max_size=2).map(tuple),
    (Role.EXPR, Shape.ONE): _exprs,
    (Role.EXPR, Shape.MANY): _expr_lists,
}
_FIELDS: dict[Any, st.SearchStrategy[Any]] = {  # Any: as above, by the annotation
    tuple[int | str, ...]: st.lists(ints | strings, max_size=3).map(tuple),
    str: names | st.sampled_from(["aten::add.out", "a::b::c"]),
    tuple[str, ...]: st.lists(names, max_size=3).map(tuple),
    int: ints,
    bool: st.booleans(),
    Device: devices,
}

_hints = st.none() | ints | st.booleans() | st.floats(allow_nan=False)
externs = st.builds(
    ExternDef,
    schema=strings.map(lambda s: f"{s}(Tensor self) -> Tensor"),
    tags=st.lists(st.sampled_from(ExternTag), max_size=2).map(tuple),
    symmetric=st.lists(symbol_names, max_size=2).map(tuple),
)


@st.composite
def programs(draw: Draw) -> Program:
    """Programs that have a text and a JSON form, valid or not."""
    declared = draw(
        st.lists(
            st.builds(
                SymbolDef,
                name=symbol_names | strings,
                kind=st.sampled_from(SymKind),
                backed=st.booleans(),
                lower=st.none() | ints,
                upper=st.none() | ints,
                hint=_hints,
            ),
            max_size=3,
            unique_by=lambda s: s.name,
        )
    )
    symbols = {s.name: s.kind for s in declared}
    outer = _Scope(draw, symbols, [])
    constants = [
        Constant(
            value=outer.define(outer.any_type()),
            data_hash=draw(strings),
            mutable=draw(st.booleans()),
            kind=draw(st.sampled_from(ConstantKind)),
            names=tuple(draw(st.lists(strings, max_size=2))),
            storage=draw(strings),
            offset=draw(ints),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Program(
        target=draw(st.builds(Target, device=devices, arch=strings)),
        symbols=tuple(declared),
        constants=tuple(constants),
        externs=tuple(draw(st.lists(externs, max_size=2))),
        kernels=tuple(draw(st.lists(kernels, max_size=2))),
        functions=tuple(_function(draw, outer) for _ in range(draw(st.integers(0, 2)))),
    )


def _function(draw: Draw, outer: _Scope) -> Function:
    scope = _Scope(draw, outer.symbols, outer.values)
    params = tuple(
        Param(value=scope.define(scope.any_type()), ownership=draw(st.sampled_from(Ownership)))
        for _ in range(draw(st.integers(0, 2)))
    )
    captures = draw(st.lists(st.sampled_from(sorted(outer.symbols)), max_size=2)) if outer.symbols else []
    body = tuple(op for _ in range(draw(st.integers(0, 4))) for op in scope.ops())
    return Function(
        name=draw(names), params=params, captures=tuple(captures), recordable=draw(st.booleans()), body=body
    )
