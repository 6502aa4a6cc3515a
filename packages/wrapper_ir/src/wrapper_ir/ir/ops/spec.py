"""Descriptions of op classes, derived once from their annotations.

`op_spec` maps a class to fields with roles; an `OpSet` is an immutable table of classes. Text, JSON, JSON
Schema, verifier, traversal, renaming, random programs and the reference are derived from these, so a new op
changes none of them.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Annotated, TypeGuard, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from wrapper_ir.expr import Expr
from wrapper_ir.ir.ops.base import OpBase, Role
from wrapper_ir.ir.types import OpaqueType, ScalarType, StorageType, TensorType, TupleType, Type
from wrapper_ir.ir.values import Value

MakeT = TypeVar("MakeT", bound=Callable[..., object])
_ANY_TYPES: tuple[type, ...] = get_args(Type)
_KINDS: dict[type, str] = {
    StorageType: "a storage",
    TensorType: "a tensor",
    ScalarType: "a number",
    TupleType: "a nested result",
}


class Shape(enum.Enum):
    """Multiplicity of a field's content."""

    ONE = "one"
    OPTIONAL = "optional"
    """One or None."""
    MANY = "many"
    """A tuple."""
    NAMED = "named"
    """A tuple of (name, one) pairs."""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field of a dataclass of the IR.

    `hint` is its annotation without the role, `item` the annotation of one element, `accepts` the types of
    its values.
    """

    name: str
    role: Role
    shape: Shape
    hint: object
    item: object
    accepts: tuple[type, ...]
    default: object
    get: Callable[[object], object]
    """Reads the field."""

    def values(self, op: object) -> tuple[Value, ...]:
        """Returns the values in a field of results or operands."""
        content = self.get(op)
        if type(content) is Value:
            return (content,)
        return content if type(content) is tuple else ()


def tag_of(cls: type) -> str:
    """Returns a class's name in JSON: `alloc_storage` for `AllocStorage`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _of_role(*roles: Role) -> cached_property[tuple[FieldSpec, ...]]:
    return cached_property(lambda spec: spec.of_role(*roles))


@dataclasses.dataclass(frozen=True)
class OpSpec:
    """One op class with its fields in order, without the provenance."""

    cls: type[OpBase]
    fields: tuple[FieldSpec, ...]

    tag = cached_property(lambda spec: tag_of(spec.cls))
    """The class's name in JSON."""
    results = _of_role(Role.DEF)
    """Fields of results."""
    operands = _of_role(Role.USE)
    """Fields of direct operands."""
    nested = _of_role(Role.ARG, Role.EXPR)
    """Fields of arguments and expressions, which may contain values at any depth."""
    inputs = _of_role(Role.USE, Role.ARG, Role.EXPR)
    """Fields of all used values, direct operands first."""
    callees = _of_role(Role.CALLEE)
    """Fields of called functions."""
    outside = _of_role(Role.KERNEL, Role.OPERATOR)
    """Field of the kernel or operator that the op calls."""

    def of_role(self, *roles: Role) -> tuple[FieldSpec, ...]:
        """Returns the fields of these roles, in the order of the roles."""
        return tuple(f for role in roles for f in self.fields if f.role is role)

    @cached_property
    def _judged(self) -> tuple[FieldSpec, ...]:
        return tuple(f for f in (*self.operands, *self.results) if f.accepts != _ANY_TYPES)

    @cached_property
    def _judged_alone(self) -> tuple[tuple[Callable[[object], Value], tuple[type, ...]], ...]:
        return tuple((attrgetter(f.name), f.accepts) for f in self._judged if f.shape is Shape.ONE)

    @cached_property
    def _judged_together(self) -> tuple[FieldSpec, ...]:
        return tuple(f for f in self._judged if f.shape is not Shape.ONE)

    def misfits(self, op: object) -> Sequence[tuple[str, str]]:
        """Returns (code, message) for each operand (WIR013) or result (WIR014) of an unaccepted type.

        Construction of an op checks nothing; builder, parser, decoder and verifier call this.
        """
        for get, accepts in self._judged_alone:
            if get(op).type.__class__ not in accepts:
                return self._misfits(op)
        return self._misfits(op) if self._judged_together else ()

    def _misfits(self, op: object) -> Sequence[tuple[str, str]]:
        return [
            ("WIR014" if field.role is Role.DEF else "WIR013", misfit(value))
            for field in self._judged
            for value in field.values(op)
            if type(value.type) not in field.accepts
        ]


def describe(value: Value) -> str:
    """Returns the kind of a value as a phrase for messages."""
    if type(value.type) is OpaqueType:
        return f"a handle ({value.type.kind.value})"
    return _KINDS.get(type(value.type), "of an unknown type")


def misfit(value: Value) -> str:
    """Returns the message for a value of a kind that is not accepted."""
    return f"%{value.name} is {describe(value)}, which cannot stand here"


def is_enum(hint: object) -> TypeGuard[type[enum.Enum]]:
    """Returns whether an annotation is an enumeration."""
    return type(hint) is enum.EnumType


def per_class(make: MakeT) -> MakeT:
    """Caches a function of a class, and keeps its signature."""
    return cast("MakeT", cache(make))  # typeshed's `cache` forgets parameters


@per_class
def op_spec(cls: type[OpBase]) -> OpSpec:
    """Returns the description of an op class."""
    return OpSpec(cls, tuple(f for f in fields_of(cls) if f.name != "prov"))


@per_class
def fields_of(cls: type) -> tuple[FieldSpec, ...]:
    """Returns the fields of a dataclass, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_field(f, hints[f.name]) for f in dataclasses.fields(cls))


def _field(field: dataclasses.Field[object], hint: object) -> FieldSpec:
    role = Role.DATA
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        role = next((note for note in notes if type(note) is Role), role)
    shape, inner = _shape(hint)
    if role is Role.DATA and inner is Expr:
        role = Role.EXPR
    accepts = _accepts(inner) if role in (Role.DEF, Role.USE) else ()
    return FieldSpec(field.name, role, shape, hint, inner, accepts, field.default, attrgetter(field.name))


def _shape(hint: object) -> tuple[Shape, object]:
    """Returns the shape of an annotation, and the annotation of one element."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple and len(args) == 2 and args[1] is ...:
        is_named = (
            get_origin(args[0]) is tuple and len(get_args(args[0])) == 2 and get_args(args[0])[0] is str
        )
        return (Shape.NAMED, get_args(args[0])[1]) if is_named else (Shape.MANY, args[0])
    if origin in (types.UnionType, Union) and len(args) == 2 and args[1] is type(None):
        return Shape.OPTIONAL, args[0]
    return Shape.ONE, hint


def _accepts(hint: object) -> tuple[type, ...]:
    """Returns the classes of types in `Value[TensorType | StorageType]`."""
    (inner,) = get_args(hint)
    return get_args(inner) or (inner,)


class OpSet:
    """An immutable set of op classes, in order; `wrapper_ir.ir.ops.OPS` contains those of the IR.

    It is a parameter of the parser, JSON decoder and schema, so a test or tool can extend or restrict the
    dialect.
    """

    def __init__(self, classes: Iterable[type[OpBase]]) -> None:
        self.classes = tuple(classes)

    @cached_property
    def specs(self) -> types.MappingProxyType[type[OpBase], OpSpec]:
        """Descriptions by class, derived on first use: emitted code needs none."""
        return types.MappingProxyType({cls: op_spec(cls) for cls in self.classes})

    @cached_property
    def by_tag(self) -> types.MappingProxyType[str, OpSpec]:
        """Descriptions by their names in JSON."""
        return types.MappingProxyType({spec.tag: spec for spec in self.specs.values()})

    def __iter__(self) -> Iterator[type[OpBase]]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)

    def __contains__(self, cls: object) -> bool:
        return cls in self.specs

    def extended(self, *classes: type[OpBase]) -> OpSet:
        """Returns this set with more classes."""
        return OpSet((*self.classes, *classes))
