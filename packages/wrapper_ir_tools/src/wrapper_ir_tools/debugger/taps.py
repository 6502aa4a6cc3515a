"""Programs that return their intermediate values, so that any engine exposes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.expr import Number, evaluate
from wrapper_ir_runtime.interp.inputs import symbol_values
from wrapper_ir_tools.debugger.computed_values import computed_values


@dataclass(frozen=True, slots=True)
class Tap:
    """A value to return after the op at `position` of `main`; `count` is the number of its earlier
    computations.
    """

    position: int
    value: ir.Value
    count: int


def all_taps(program: ir.Program, analyses: Analyses) -> list[Tap]:
    """All values that ops of `main` compute, in order."""
    taps: list[Tap] = []
    counts: Counter[str] = Counter()
    for position in range(len(program.main.body)):
        for value in computed_values(program.main, position, analyses):
            taps.append(Tap(position, value, counts[value.name]))
            counts[value.name] += 1
    return taps


def tap_windows(program: ir.Program, limit: int, symbols: Mapping[str, Number]) -> Iterator[list[Tap]]:
    """Yields all taps in order, in groups whose copies total about `limit` bytes. Symbolic sizes use their
    hints.
    """
    values = symbol_values(program, symbols)
    group: list[Tap] = []
    total = 0
    for tap in all_taps(program, Analyses(program)):
        value = tap.value
        size = int(evaluate(ir.extent_bytes(value.type), values)) if ir.is_tensor(value) else 8
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(tap)
        total += size
    if group:
        yield group


def tapped(artifact: Artifact, taps: Sequence[Tap]) -> Artifact:
    """Returns the artifact whose `main` also returns a copy of each tapped value, after its own results.

    Its flat arguments are unchanged.
    """
    main = artifact.program.main
    by_position: dict[int, list[Tap]] = {}
    for tap in taps:
        by_position.setdefault(tap.position, []).append(tap)
    names = {v.name for v in ir.definitions(main)} | {c.value.name for c in artifact.program.constants}
    body: list[ir.Op] = []
    tapped_values: list[ir.Value] = []
    for position, op in enumerate(main.body):
        if isinstance(op, ir.Return):
            op = replace(op, values=(*op.values, *tapped_values))
        body.append(op)
        for tap in by_position.get(position, ()):
            if not ir.is_tensor(tap.value):
                tapped_values.append(tap.value)
                continue
            copy, ops = dense_copy(tap.value, f"{tap.value.name}.tap", op.prov, names)
            body += ops
            tapped_values.append(copy)
    changed = main.with_body(body)
    program = artifact.program.with_functions((changed, *artifact.program.functions[1:]))
    bare = bare_artifact(program, artifact.constants)
    return replace(artifact, program=program, signature=bare.signature)


def dense_copy(
    value: ir.Value[ir.TensorType], name: str, prov: ir.Provenance, names: set[str]
) -> tuple[ir.Value[ir.TensorType], list[ir.Op]]:
    """Returns a contiguous copy of the value, and the ops that create it. Adds its names to `names`."""
    dense = replace(value.type, strides=ir.contiguous_strides(value.type.sizes))
    while name in names or f"{name}.s" in names:
        name += "_"
    names |= {name, f"{name}.s"}
    storage = ir.Value(f"{name}.s", ir.StorageType(ir.extent_bytes(dense), dense.device))
    copy = ir.Value(name, dense)
    return copy, [
        ir.AllocStorage(result=storage, prov=prov),
        ir.View(source=storage, result=copy, prov=prov),
        ir.Copy(dst=copy, src=value, prov=prov),
    ]
