"""Replaces ops by copies of the values that they computed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir_passes.cleanup.dead_ops import EliminateDeadOps
from wrapper_ir_runtime.tensor_text import TensorView
from wrapper_ir_tools.debugger.computed_values import computed_values
from wrapper_ir_tools.debugger.samples import samples
from wrapper_ir_tools.debugger.subject import Subject

_WORK = (ir.Launch, ir.CallExtern, ir.Copy, ir.CallSubgraph, ir.Switch, ir.WhileLoop)


def replaceable(program: ir.Program, analyses: Analyses) -> list[int]:
    """Positions of the ops of `main` that only compute tensors, so that copies can replace them."""
    main = program.main
    positions = []
    for position, op in enumerate(main.body):
        values = computed_values(main, position, analyses)
        tensors_only = values and all(map(ir.is_tensor, (*values, *ir.results(op))))
        if isinstance(op, _WORK) and tensors_only and not is_stub(op):
            positions.append(position)
    return positions


def is_stub(op: ir.Op) -> bool:
    """True if the op copies a constant with a value computed by the whole program."""
    return isinstance(op, ir.Copy) and op.src.name.endswith(".content")


def stubbed(subject: Subject, positions: Collection[int]) -> Artifact:
    """Replaces the ops at these positions by copies of constants, and removes dead ops."""
    program, main = subject.program, subject.program.main
    contents: dict[tuple[int, str], TensorView] = {
        (s.position, s.name): s.content.data
        for s in samples(subject)
        if s.function is main and s.position in positions and isinstance(s.content.data, TensorView)
    }
    names = {v.name for v in ir.definitions(main)} | {c.value.name for c in program.constants}
    constants: list[ir.Constant] = []
    data: dict[str, TensorData] = {}
    body: list[ir.Op] = []
    for position, op in enumerate(main.body):
        if position not in positions:
            body.append(op)
            continue
        for value in computed_values(main, position, subject.analyses):
            assert ir.is_tensor(value)
            content = contents[position, f"%{value.name}"]
            dense = replace(value.type, strides=ir.contiguous_strides(value.type.sizes))
            name = _fresh(f"{value.name}.content", names)
            stored = TensorData(content.dtype, content.data.cast("B"))
            constants.append(ir.Constant(value=ir.Value(name, dense), data_hash=stored.sha256()))
            data[name] = stored
            if value in ir.results(op):
                body += _allocation(value, names)
            body.append(ir.Copy(dst=value, src=constants[-1].value))  # type: ignore[arg-type]  # a tensor
    changed = replace(
        program.with_functions((main.with_body(body), *program.functions[1:])),
        constants=(*program.constants, *constants),
    )
    return rebuilt(subject.artifact, changed, data)


def _allocation(value: ir.Value[ir.TensorType], names: set[str]) -> list[ir.Op]:
    type = value.type
    storage = ir.Value(_fresh(f"{value.name}.s", names), ir.StorageType(ir.extent_bytes(type), type.device))
    return [ir.AllocStorage(result=storage), ir.View(source=storage, result=value)]


def _fresh(wish: str, names: set[str]) -> str:
    name, number = wish, 0
    while name in names:
        number += 1
        stem, dot, last = wish.rpartition(".")
        name = f"{stem}_{number}{dot}{last}"
    names.add(name)
    return name


def rebuilt(artifact: Artifact, program: ir.Program, data: Mapping[str, TensorData]) -> Artifact:
    """Returns the artifact with a changed program, without dead ops and definitions. `data` has new
    constants.
    """
    smaller = EliminateDeadOps().run(program)
    operand_set = {v for op in smaller.ops for v in ir.operands(op)}
    live = tuple(c for c in smaller.constants if c.value in operand_set)
    smaller = replace(smaller, constants=live)
    names = {c.data_name for c in live}
    stored = {n: d for n, d in {**artifact.constants, **data}.items() if n in names}
    kernels = set(map(content_hash, smaller.kernels))
    bare = bare_artifact(smaller, stored)
    binaries = tuple(b for b in artifact.binaries if b.kernel in kernels)
    return replace(bare, binaries=binaries, metadata=artifact.metadata)
