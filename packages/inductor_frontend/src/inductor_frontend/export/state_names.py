"""Names of a model's state that are missing among the constants of its program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch.export import ExportedProgram

from wrapper_ir import ir


@dataclass(frozen=True, slots=True)
class StateNames:
    """Names of the tensors in a model's state dict (`saved`), and of its non-persistent buffers
    (`unsaved`)."""

    saved: frozenset[str]
    unsaved: frozenset[str]

    def beside(self, constants: Iterable[ir.Constant]) -> dict[str, list[str]]:
        """Returns `unused`: names of tensors that the program does not read, and `unsaved`: names of buffers
        that it reads and that are not in the state dict."""
        names = {name for constant in constants for name in constant.names}
        return {"unused": sorted(self.saved - names), "unsaved": sorted(self.unsaved & names)}


def state_names(program: ExportedProgram) -> StateNames:
    """Returns the names of the state of an exported model."""
    return StateNames(
        frozenset(program.state_dict), frozenset(program.graph_signature.non_persistent_buffers)
    )
