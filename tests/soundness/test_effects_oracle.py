"""The effects of ops and the aliasing that follows, compared with random programs in torch.

Every program is stepped through. Around each op of `main`, the bytes of all live storages and the storage of
each value are compared with `effects_of` and `analyse_aliasing`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import pytest
import torch
from torch import Tensor

import py_wrapper
from tests.soundness.flat_inputs import flat_inputs
from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact
from wrapper_ir.verifier.insert_checks import insert_checks
from wrapper_ir_runtime.interp import InterpOptions, Interpreter, Step
from wrapper_ir_tools.testing import RandomOptions, random_artifact

MACHINE = py_wrapper.TORCH_MACHINE


@dataclass(frozen=True)
class Snapshot:
    """The state before an op: tensors by value (kept alive, so that no address is used twice), bytes by
    storage.
    """

    op: ir.Op
    tensors: dict[ir.Value, Tensor]
    bytes: dict[int, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        found = {self.key(v): MACHINE.storage_of(t).clone() for v, t in self.tensors.items()}
        object.__setattr__(self, "bytes", found)

    def key(self, value: ir.Value) -> int:
        return MACHINE.storage_key(self.tensors[value])

    def nbytes(self, value: ir.Value) -> int:
        return self.bytes[self.key(value)].numel()

    def changed_since(self, before: Snapshot) -> set[int]:
        """Returns storages that are in both and have different bytes."""
        return {
            key
            for key, now in self.bytes.items()
            if key in before.bytes and not torch.equal(now, before.bytes[key])
        }


def snapshots(artifact: Artifact, seed: int) -> Iterator[Snapshot]:
    """Returns one snapshot before each op of `main`."""
    interpreter = Interpreter(artifact, MACHINE, InterpOptions(debug=lambda op, values: None))
    for step in interpreter.steps(flat_inputs(seed)):
        if step.depth == 0:
            yield Snapshot(step.op, live_tensors(step, interpreter))


def live_tensors(step: Step[Tensor], interpreter: Interpreter[Tensor]) -> dict[ir.Value, Tensor]:
    held = {**interpreter.constants, **step.values}
    return {v: t for v, t in held.items() if isinstance(t, Tensor)}


def check_op(before: Snapshot, after: Snapshot, position: int, aliasing: Aliasing) -> None:
    """Compares one op with its effects."""
    effects = aliasing.effects[position]
    allowed = {before.key(v) for v in effects.writes if v in before.tensors}
    assert after.changed_since(before) <= allowed, f"{before.op} writes more than it says"
    for value in effects.fresh:
        if value in after.tensors and after.nbytes(value):
            assert after.key(value) not in before.bytes, f"{before.op}: %{value.name} is not fresh"
    for result, source in effects.aliases:
        if result in after.tensors and source in before.tensors and after.nbytes(result):
            assert after.key(result) == before.key(source), f"{before.op}: %{result.name} is not an alias"


def check_roots(now: Snapshot, aliasing: Aliasing) -> int:
    """Tensors that share storage have a root in common; sure ones with the same root share.

    Counts sharing pairs.
    """
    live = [v for v in now.tensors if now.nbytes(v) and v in aliasing.roots]
    sharing = 0
    for a, b in combinations(live, 2):
        common = set(aliasing.roots[a]) & set(aliasing.roots[b])
        if now.key(a) == now.key(b):
            assert common, f"%{a.name} and %{b.name} share storage behind the analysis"
            sharing += 1
        elif common:
            assert {a, b} & aliasing.uncertain, f"%{a.name} and %{b.name} share nothing"
    return sharing


def check_program(seed: int, size: int) -> tuple[int, set[type[ir.Op]]]:
    """(pairs that share storage, op classes seen)."""
    artifact = random_artifact(random.Random(seed), size, RandomOptions(executable=True))
    # the program that an engine runs
    artifact = dataclasses.replace(artifact, program=insert_checks(artifact.program))
    main = artifact.program.main
    aliasing = Analyses(artifact.program).aliasing(main)
    if aliasing.hosts:  # snapshots identify storages by address, and a slot has its pool's
        return 0, set()
    sharing, seen, previous = 0, set[type[ir.Op]](), None
    for position, now in enumerate(snapshots(artifact, seed)):
        seen.add(type(now.op))
        if previous is not None:
            check_op(previous, now, position - 1, aliasing)
        sharing += check_roots(now, aliasing)
        previous = now
    return sharing, seen


def test_random_programs_do_what_their_effects_say() -> None:
    sharing, seen = 0, set[type[ir.Op]]()
    for seed in range(60):
        more, classes = check_program(seed, 12)
        sharing += more
        seen |= classes
    assert sharing > 1000
    assert len(seen) >= 20


@pytest.mark.conformance
def test_many_random_programs_do_what_their_effects_say() -> None:
    for seed in range(1000, 4000):
        check_program(seed, 16)
