"""Programs that return what they compute on the way, so that any engine shows its intermediate values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.expr import Number, evaluate
from wrapper_ir.ir.layout import contiguous_strides, extent_bytes
from wrapper_ir.ir.ops import AllocStorage, Copy, Op, Provenance, Return, View
from wrapper_ir.ir.program import Program
from wrapper_ir.ir.structure import definitions
from wrapper_ir.ir.types import StorageType, TensorType
from wrapper_ir.ir.values import Value, is_tensor
from wrapper_ir_runtime.interp.inputs import symbol_values
from wrapper_ir_tools.debugger.products import products


@dataclass(frozen=True, slots=True)
class Tap:
    """A value to show after the op at `position` of `main`; `count` is how often it was computed before."""

    position: int
    value: Value
    count: int


def all_taps(program: Program, analyses: Analyses) -> list[Tap]:
    """Everything that ops of `main` compute, in order."""
    found: list[Tap] = []
    counts: Counter[str] = Counter()
    for position in range(len(program.main.body)):
        for value in products(program.main, position, analyses):
            found.append(Tap(position, value, counts[value.name]))
            counts[value.name] += 1
    return found


def tap_windows(program: Program, limit: int, given: Mapping[str, Number]) -> Iterator[list[Tap]]:
    """All taps in order, in groups whose copies have about `limit` bytes together, sizes by hints where they are
    symbolic."""
    values = symbol_values(program, given)
    group: list[Tap] = []
    held = 0
    for tap in all_taps(program, Analyses(program)):
        type = tap.value.type
        size = int(evaluate(extent_bytes(type), values)) if isinstance(type, TensorType) else 8
        if group and held + size > limit:
            yield group
            group, held = [], 0
        group.append(tap)
        held += size
    if group:
        yield group


def tapped(artifact: Artifact, taps: Sequence[Tap]) -> Artifact:
    """The artifact whose `main` returns, after its own results, a copy of each tapped value. It takes `main`'s flat
    arguments."""
    main = artifact.program.main
    by_position: dict[int, list[Tap]] = {}
    for tap in taps:
        by_position.setdefault(tap.position, []).append(tap)
    names = {v.name for v in definitions(main)} | {c.value.name for c in artifact.program.constants}
    body: list[Op] = []
    shown: list[Value] = []
    for position, op in enumerate(main.body):
        if isinstance(op, Return):
            op = replace(op, values=(*op.values, *shown))
        body.append(op)
        for tap in by_position.get(position, ()):
            if not is_tensor(tap.value):
                shown.append(tap.value)
                continue
            made, ops = dense_copy(tap.value, f"{tap.value.name}.tap", op.prov, names)
            body += ops
            shown.append(made)
    changed = main.with_body(body)
    program = artifact.program.with_functions((changed, *artifact.program.functions[1:]))
    bare = bare_artifact(program, artifact.constants)
    return replace(artifact, program=program, signature=bare.signature)


def dense_copy(
    value: Value[TensorType], name: str, prov: Provenance, names: set[str]
) -> tuple[Value[TensorType], list[Op]]:
    """A contiguous copy of the value, and the ops that make it. Adds its names, `name` if that is free, to `names`."""
    dense = replace(value.type, strides=contiguous_strides(value.type.sizes))
    while name in names or f"{name}.s" in names:
        name += "_"
    names |= {name, f"{name}.s"}
    storage = Value(f"{name}.s", StorageType(extent_bytes(dense), dense.device))
    copy = Value(name, dense)
    return copy, [
        AllocStorage(result=storage, prov=prov),
        View(source=storage, result=copy, prov=prov),
        Copy(dst=copy, src=value, prov=prov),
    ]
