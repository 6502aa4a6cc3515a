"""Programs by number: hostile ones, and valid ones of which something was corrupted."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.soundness.guarded.arguments import arguments
from tests.soundness.guarded.hostile import hostile_artifact
from tests.soundness.guarded.kernels import tell_extents
from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.testing import RandomOptions, random_artifact
from wrapper_ir_tools.testing.corrupt import corrupt

Case = tuple[Artifact, Callable[[], list[Any]]]
"""A program, and arguments for it, in separate memory each time. Any: tensors and numbers."""

_WRONG_CALL = 0.15


def _case(artifact: Artifact, seed: str) -> Case:
    """Passes extents to kernels; most callers pass valid arguments for `main`."""
    artifact = dataclasses.replace(artifact, program=tell_extents(artifact.program))
    wrong = random.Random(f"{seed}:wrong").choice((0.0, 0.0, _WRONG_CALL))

    def make() -> list[Any]:
        return arguments(artifact.program, random.Random(f"{seed}:arguments"), wrong)

    return artifact, make


def _hostile(seed: str) -> Case:
    return _case(hostile_artifact(random.Random(seed)), seed)


def _corrupted(seed: str) -> Case:
    rng = random.Random(seed)
    artifact = random_artifact(rng, rng.randrange(4, 20), RandomOptions(executable=True, hostile=False))
    program = artifact.program
    for _ in range(rng.choice((1, 1, 1, 2))):
        program, _ = corrupt(program, rng)
    hashed = tuple(
        dataclasses.replace(c, data_hash=artifact.constants[c.value.name].sha256()) for c in program.constants
    )
    program = dataclasses.replace(program, constants=hashed)
    return _case(dataclasses.replace(artifact, program=program), seed)


def case(kind: str, number: int) -> Case:
    """The program of this number, the same in each process."""
    return KINDS[kind](f"{kind}:{number}")


KINDS: Mapping[str, Callable[[str], Case]] = MappingProxyType({"hostile": _hostile, "corrupted": _corrupted})
