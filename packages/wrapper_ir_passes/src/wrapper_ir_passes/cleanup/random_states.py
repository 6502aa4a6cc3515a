"""Random states in the signature of an artifact."""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.random import random_devices
from wrapper_ir.artifact import Artifact


def with_drawn_states(artifact: Artifact, program: ir.Program) -> Artifact:
    """Returns the artifact with another program and the random states that this one still draws from.

    Calls of attention without dropout declare that they may draw.
    """
    devices = Analyses(program).get(random_devices)
    random = tuple(state for state in artifact.signature.random if state.device in devices)
    signature = dataclasses.replace(artifact.signature, random=random)
    return dataclasses.replace(artifact, program=program, signature=signature)
