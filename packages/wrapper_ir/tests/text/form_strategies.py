"""Hypothesis strategies of programs, valid or not: every field of every op takes any value with a text form.

What they respect is what the forms rely on: names are unique where they are looked up, values are defined
before they are used, symbols are declared.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from packages.wrapper_ir.tests.text.kernel_strategies import ints, kernels, names, strings

from wrapper_ir import ir
from wrapper_ir.expr import OPERATORS, Bool, Expr, Float, Int, Operator, Sym, SymKind
from wrapper_ir.expr.leaves import RESERVED_NAMES

TypeT = TypeVar("TypeT", bound=ir.Type)
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
    ir.Device, st.sampled_from(["cpu", "cuda", "odd type", "größe", ""]), st.none() | st.integers(-1, 9)
)
provenances = st.builds(
    ir.Provenance,
    **dict.fromkeys(("nodes", "ops", "locations", "modules"), st.lists(strings, max_size=2).map(tuple)),
    frontend_name=strings,
)
spaces = st.builds(ir.MemorySpace, st.sampled_from(ir.MemoryKind), strings, ints)


# Strategies are made once, which is what makes them fast: symbols and values are placeholders that a scope replaces.
_PLACES = tuple(Sym(f"place{n}") for n in range(4))
_VALUES = tuple(ir.Value(f"place{n}", ir.TupleType()) for n in range(4))


def _nodes(e: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def applied(op: Operator) -> st.SearchStrategy[Expr]:
        return st.lists(e, min_size=op.arity or 2, max_size=op.arity or 3).map(lambda args: op(*args))

    return st.sampled_from(OPERATORS.rows).flatmap(applied)


_values = st.sampled_from(_VALUES)
_dims = st.integers(0, 3)
_floats = st.builds(Float, st.floats())
_leaves = st.one_of(st.builds(Int, ints), _floats, st.builds(Bool, st.booleans()), st.sampled_from(_PLACES))
_atoms = st.one_of(
    *(st.builds(cls, _values, _dims) for cls in (ir.SizeOf, ir.StrideOf)),
    *(st.builds(cls, _values) for cls in (ir.OffsetOf, ir.Item)),
)
_sizes = st.recursive(_leaves, _nodes, max_leaves=6)
_exprs = st.recursive(_leaves | _atoms, _nodes, max_leaves=6)
_expr_lists = st.lists(_exprs, max_size=3).map(tuple)
_SHAPES = tuple[tuple[Expr, ...], ...]
_size_lists = st.lists(_sizes, max_size=3).map(tuple)
_tensors = st.builds(
    ir.TensorType, st.sampled_from(ir.DType), _size_lists, st.just(()) | _size_lists, devices
)
_other_types = st.one_of(
    st.builds(ir.ScalarType, st.sampled_from(SymKind)),
    st.just(ir.TupleType()),
    st.builds(ir.OpaqueType, st.sampled_from(ir.OpaqueKind), strings),
)
_storages = st.builds(ir.StorageType, _sizes, devices, spaces, st.sampled_from((1, 8, 64, 256)))
_args: st.SearchStrategy[ir.Arg] = st.recursive(
    st.one_of(
        st.none(),
        strings,
        st.sampled_from([*ir.DType, *ir.MemoryFormat, *ir.Layout]),
        devices,
        st.builds(ir.Complex, _floats, _floats),
        _exprs,
        _values,
    ),
    lambda a: st.lists(a, max_size=3).map(tuple),
    max_leaves=5,
)


class _Scope:
    """Names in scope of one function's ops; defines values under unique names."""

    def __init__(self, draw: Draw, symbols: dict[str, SymKind], outer: list[ir.Value]) -> None:
        self.draw = draw
        self.symbols = symbols
        self.values = list(outer)
        self.usable = [Sym(n, k) for n, k in symbols.items() if n.isidentifier() and n not in RESERVED_NAMES]

    def define(self, type: TypeT, wish: str | None = None) -> ir.Value[TypeT]:
        existing = {v.name for v in self.values}
        name = self.draw(names) if wish is None else wish
        while name in existing:
            name += "_"
        value = ir.Value(name, type)
        self.values.append(value)
        return value

    def bind(self, x: Any) -> Any:  # Any: whatever a strategy of a field makes
        """Replaces placeholders in `x` by symbols and values of this scope."""
        match x:
            case tuple():
                return tuple(self.bind(item) for item in x)
            case ir.Value():
                return self.values[int(x.name[-1]) % len(self.values)] if self.values else None
            case Sym(name):
                return self.usable[int(name[-1]) % len(self.usable)] if self.usable else Int(1)
            case ir.SizeOf() | ir.StrideOf() | ir.OffsetOf() | ir.Item() if not self.values:
                return Int(0)
            case Expr():
                return type(x)(*(self.bind(getattr(x, name)) for name in x.__match_args__))  # its own fields
            case _:
                return x

    def tensor(self) -> ir.TensorType:
        """Returns a tensor type, contiguous if the strategy draws no strides."""
        type: ir.TensorType = self.draw(_tensors)
        sizes = self.bind(type.sizes)
        strides = self.bind(type.strides) or ir.contiguous_strides(sizes)
        return ir.TensorType(type.dtype, sizes, strides, type.device)

    def storage(self) -> ir.StorageType:
        type: ir.StorageType = self.draw(_storages)
        return ir.StorageType(self.bind(type.nbytes), type.device, type.space, type.alignment)

    def any_type(self) -> ir.Type:
        match self.draw(st.integers(0, 2)):
            case 0:
                return self.tensor()
            case 1:
                return self.storage()
            case _:
                type: ir.Type = self.draw(_other_types)
                return type

    def type_of(self, accepts: tuple[type, ...]) -> ir.Type:
        """Returns a type of one of these classes."""
        cls = self.draw(st.sampled_from(accepts))
        if cls is ir.TensorType:
            return self.tensor()
        result: ir.Type = self.storage() if cls is ir.StorageType else self.draw(_of_class[cls])
        return result

    def operand(self, accepts: tuple[type, ...]) -> ir.Value | None:
        """Returns a value in scope of one of these types."""
        fitting = [v for v in self.values if isinstance(v.type, accepts)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def field(self, field: ir.FieldSpec) -> Any:  # Any: the field's own type
        """Returns the content of a field; None if the scope has none (no operand, no symbol)."""
        if field.role is ir.Role.SYMBOL:
            return self.draw(st.sampled_from(sorted(self.symbols))) if self.symbols else None
        if field.role is ir.Role.USE:
            count = self.draw(st.integers(0, 3)) if field.shape is ir.Shape.MANY else 1
            found = [self.operand(field.accepts) for _ in range(count)]
            return tuple(v for v in found if v is not None) if field.shape is ir.Shape.MANY else found[0]
        strategy = _BY_ROLE.get((field.role, field.shape))
        if strategy is None and isinstance(field.hint, type) and issubclass(field.hint, enum.Enum):
            strategy = st.sampled_from(field.hint)
        return self.bind(self.draw(_FIELDS[field.hint] if strategy is None else strategy))

    def ops(self) -> tuple[ir.Op, ...]:
        """Returns an op, or an allocation with its view."""
        cls = self.draw(st.sampled_from([*ir.OPS, ir.AllocStorage]))
        prov = self.draw(st.just(ir.Provenance()) | provenances)
        if cls is ir.AllocStorage:
            return self.alloc(prov)
        return self.op(cls, prov)

    def shapes(self, fields: dict[str, Any]) -> tuple[Any, ...] | None:  # Any: see `op`
        """Returns one list of sizes per tensor; None without a tensor."""
        return tuple(self.bind(self.draw(_size_lists)) for _ in fields["tensors"]) or None

    def op(self, cls: type[ir.OpBase], prov: ir.Provenance) -> tuple[ir.Op, ...]:
        fields: dict[str, Any] = {"prov": prov}  # Any: fields of any type
        spec = ir.op_spec(cls)
        for field in spec.fields:
            if field.role is not ir.Role.DEF:
                fields[field.name] = self.shapes(fields) if field.hint == _SHAPES else self.field(field)
                if fields[field.name] is None and field.role is not ir.Role.ARG:
                    return ()
        for field in spec.results:
            count = {ir.Shape.ONE: 1, ir.Shape.OPTIONAL: self.draw(st.integers(0, 1))}.get(field.shape)
            results = [
                self.define(self.type_of(field.accepts))
                for _ in range(self.draw(st.integers(0, 2)) if count is None else count)
            ]
            fields[field.name] = (
                tuple(results) if field.shape is ir.Shape.MANY else results[0] if results else None
            )
        make: type[Any] = cls  # Any: its fields are known here only by their annotations
        op: ir.Op = make(**fields)
        return (op,)

    def alloc(self, prov: ir.Provenance) -> tuple[ir.Op, ...]:
        """Returns an allocation and a view, which usually but not always have the one-line form."""
        draw = self.draw
        type_ = self.tensor()
        name = draw(names)
        while name in {v.name for v in self.values}:
            name += "_"
        fits = draw(st.booleans()) and len(type_.sizes) == len(type_.strides)
        host = ir.StorageType(ir.extent_bytes(type_), type_.device) if fits else self.storage()
        storage = self.define(host, f"{name}.s")
        alloc = ir.AllocStorage(
            result=storage,
            purpose=draw(st.sampled_from(ir.AllocPurpose)),
            zero=draw(st.sampled_from(ir.ZeroMode)),
            stream=draw(st.integers(-1, 2)),
            prov=prov,
        )
        view = ir.View(
            source=storage,
            result=self.define(type_, name),
            mode=draw(st.sampled_from(ir.ViewMode)),
            offset=self.bind(draw(st.just(Int(0)) | _sizes)),
            prov=draw(st.just(prov) | provenances),
        )
        return (alloc, view)


_of_class: dict[type, st.SearchStrategy[Any]] = {  # Any: each of its class
    ir.ScalarType: st.builds(ir.ScalarType, st.sampled_from(SymKind)),
    ir.TupleType: st.just(ir.TupleType()),
    ir.OpaqueType: st.builds(ir.OpaqueType, st.sampled_from(ir.OpaqueKind), strings),
}
_BY_ROLE: dict[tuple[ir.Role, ir.Shape], st.SearchStrategy[Any]] = {  # Any: each of its field's type
    (ir.Role.ARG, ir.Shape.ONE): _args,
    (ir.Role.ARG, ir.Shape.MANY): st.lists(_args, max_size=3).map(tuple),
    (ir.Role.ARG, ir.Shape.NAMED): st.lists(st.tuples(names, _args), max_size=2).map(tuple),
    (ir.Role.EXPR, ir.Shape.ONE): _exprs,
    (ir.Role.EXPR, ir.Shape.MANY): _expr_lists,
}
_FIELDS: dict[Any, st.SearchStrategy[Any]] = {  # Any: as above, by the annotation
    tuple[int | str, ...]: st.lists(ints | strings, max_size=3).map(tuple),
    str: names | st.sampled_from(["aten::add.out", "a::b::c"]),
    tuple[str, ...]: st.lists(names, max_size=3).map(tuple),
    int: ints,
    bool: st.booleans(),
    ir.Device: devices,
}

_hints = st.none() | ints | st.booleans() | st.floats(allow_nan=False)
externs = st.builds(
    ir.ExternDef,
    schema=strings.map(lambda s: f"{s}(Tensor self) -> Tensor"),
    tags=st.lists(st.sampled_from(ir.ExternTag), max_size=2).map(tuple),
    symmetric=st.lists(symbol_names, max_size=2).map(tuple),
)


@st.composite
def programs(draw: Draw) -> ir.Program:
    """Returns programs with a text and a JSON form, valid or not."""
    declared = draw(
        st.lists(
            st.builds(
                ir.SymbolDef,
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
        ir.Constant(
            value=outer.define(outer.any_type()),
            data_hash=draw(strings),
            mutable=draw(st.booleans()),
            kind=draw(st.sampled_from(ir.ConstantKind)),
            names=tuple(draw(st.lists(strings, max_size=2))),
            storage=draw(strings),
            offset=draw(ints),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return ir.Program(
        target=draw(st.builds(ir.Target, device=devices, arch=strings)),
        symbols=tuple(declared),
        constants=tuple(constants),
        externs=tuple(draw(st.lists(externs, max_size=2))),
        kernels=tuple(draw(st.lists(kernels, max_size=2))),
        functions=tuple(_function(draw, outer) for _ in range(draw(st.integers(0, 2)))),
    )


def _function(draw: Draw, outer: _Scope) -> ir.Function:
    scope = _Scope(draw, outer.symbols, outer.values)
    params = tuple(
        ir.Param(value=scope.define(scope.any_type()), ownership=draw(st.sampled_from(ir.Ownership)))
        for _ in range(draw(st.integers(0, 2)))
    )
    captures = draw(st.lists(st.sampled_from(sorted(outer.symbols)), max_size=2)) if outer.symbols else []
    body = tuple(op for _ in range(draw(st.integers(0, 4))) for op in scope.ops())
    return ir.Function(
        name=draw(names), params=params, captures=tuple(captures), replayable=draw(st.booleans()), body=body
    )
