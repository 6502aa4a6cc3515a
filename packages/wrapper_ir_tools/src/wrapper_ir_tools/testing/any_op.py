"""Generates a random instance of an op from its spec, for ops without a handwritten step."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir import ir
from wrapper_ir.errors import BuildError
from wrapper_ir_tools.testing.numbers import random_int
from wrapper_ir_tools.testing.world import World


def any_op(spec: ir.OpSpec) -> Callable[[World], None]:
    """Returns a step that appends an op of this class.

    Its operands are tensors with data, and its results have the type of the first one. The step raises
    BuildError WIR309 for a field that no value is known to fit.
    """

    def step(w: World) -> None:
        x = w.dense()
        if x is None:
            return
        make: Callable[..., ir.OpBase] = spec.cls
        fields = {f.name: _many(f, w, x.type) for f in spec.fields if f.role is not ir.Role.DEF}
        for field in spec.results:
            result = w.function.value(w.name("made"), x.type)
            fields[field.name] = (result,) if field.shape is ir.Shape.MANY else result
        op = make(**fields, prov=w.function.prov)
        w.function.append(op)  # type: ignore[arg-type]  # not one of `Op`
        for value in ir.results(op):
            w.hold(ir.as_tensor(value), own=False, mutable=False)

    return step


def _many(field: ir.FieldSpec, w: World, type: ir.TensorType) -> object:
    if field.shape is not ir.Shape.MANY:
        return _one(field, w, type)
    return tuple(_one(field, w, type) for _ in range(w.rng.randrange(1, 3)))


def _one(field: ir.FieldSpec, w: World, type: ir.TensorType) -> object:
    hint = field.hint
    if field.role in (ir.Role.USE, ir.Role.ARG):
        entry = w.pick(t for t in w.tensors if t.ready and t.dense and t.type == type)
        # `type` is one of theirs
        assert entry is not None
        return entry.value
    if field.role is ir.Role.EXPR:
        return random_int(w.rng, w.symbols)
    if hint is bool:
        return w.rng.random() < 0.5
    if hint is int:
        return w.rng.randrange(4)
    if hint is str:
        return w.string()
    if ir.is_enum(hint):
        return w.rng.choice(tuple(hint))
    raise BuildError("WIR309", f"nothing is known to fit field {field.name!r} of type {hint}")
