"""A step for an op without a hand-written one: a random instance from its spec."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from wrapper_ir.errors import BuildError
from wrapper_ir.ops import FieldSpec, OpSpec, Role, Shape
from wrapper_ir.testing.numbers import random_int
from wrapper_ir.testing.world import World
from wrapper_ir.types import TensorType

__all__ = ["any_op"]


def any_op(spec: OpSpec) -> Callable[[World], None]:
    """A step that appends an op of this class. Its operands are tensors that hold data, and its results have the type of
    the first one. Raises BuildError WIR309 when run, for a field that nothing is known to fit."""

    def step(w: World) -> None:
        x = w.dense()
        if x is None:
            return
        fields: dict[str, Any] = {}  # Any: each field has its own type
        for field in spec.fields:
            if field.role is not Role.DEF:
                fields[field.name] = _many(field, w, x.type)
        for field in spec.results:
            made = w.function.value(w.name("made"), x.type)
            fields[field.name] = (made,) if field.shape is Shape.MANY else made
        w.function.append(spec.cls(**fields, prov=w.function.prov))  # type: ignore[arg-type]  # not one of `Op`
        for field in spec.results:
            for value in (fields[field.name],) if field.shape is Shape.ONE else fields[field.name]:
                w.hold(value, own=False, mutable=False)

    return step


def _many(field: FieldSpec, w: World, type: TensorType) -> Any:  # Any: the field's own type
    if field.shape is not Shape.MANY:
        return _one(field, w, type)
    return tuple(_one(field, w, type) for _ in range(w.rng.randrange(1, 3)))


def _one(field: FieldSpec, w: World, type: TensorType) -> Any:  # Any: the field's own type
    hint = field.hint
    if field.role in (Role.USE, Role.ARG):
        found = w.pick(t for t in w.tensors if t.ready and t.dense and t.type == type)
        assert found is not None  # `type` is one of theirs
        return found.value
    if field.role is Role.EXPR:
        return random_int(w.rng, w.symbols)
    if hint is bool:
        return w.rng.random() < 0.5
    if hint is int:
        return w.rng.randrange(4)
    if hint is str:
        return w.string()
    if isinstance(hint, enum.EnumMeta):
        return w.rng.choice(tuple(hint))
    raise BuildError("WIR309", f"nothing is known to fit field {field.name!r} of type {hint}")
