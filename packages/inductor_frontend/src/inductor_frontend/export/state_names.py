"""Names of a model's state that no constant of its program has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch.export import ExportedProgram

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class StateNames:
    """Names of the tensors of a model's state dict, and of the buffers that the state dict does not have."""

    saved: frozenset[str]
    unsaved: frozenset[str]

    def beside(self, constants: Iterable[ir.Constant]) -> dict[str, list[str]]:
        """`unused`: names of tensors that the program does not read. `unsaved`: its buffers that are not in the state dict."""
        used = {name for constant in constants for name in constant.names}
        return {"unused": sorted(self.saved - used), "unsaved": sorted(self.unsaved & used)}


def state_names(program: ExportedProgram) -> StateNames:
    """The names of an exported model."""
    return StateNames(
        frozenset(program.state_dict), frozenset(program.graph_signature.non_persistent_buffers)
    )
