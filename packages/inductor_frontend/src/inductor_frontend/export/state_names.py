"""Names of a model's state that no constant of its program has."""

from __future__ import annotations

from collections.abc import Iterable

from torch.export import ExportedProgram

from wrapper_ir.ir.program import Constant


def model_state(program: ExportedProgram, constants: Iterable[Constant]) -> dict[str, list[str]]:
    """`unused`: names of tensors of the model's state dict that the program does not read. `unsaved`: names of buffers that
    the state dict does not have."""
    used = {name for constant in constants for name in constant.names}
    unsaved = used.intersection(program.graph_signature.non_persistent_buffers)
    return {"unused": sorted(set(program.state_dict) - used), "unsaved": sorted(unsaved)}
