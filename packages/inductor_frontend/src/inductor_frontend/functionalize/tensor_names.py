"""What a model calls its tensors: all names of each, also where several names stand for one tensor (tied weights)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType

import torch
from torch.export.graph_signature import InputKind

from inductor_frontend.constants import is_packed
from inductor_frontend.export.exported import Exported
from inductor_frontend.export.subclasses import is_wrapper
from wrapper_ir import ir

KINDS: Mapping[InputKind, ir.ConstantKind] = MappingProxyType(
    {InputKind.PARAMETER: ir.ConstantKind.PARAMETER, InputKind.BUFFER: ir.ConstantKind.BUFFER}
)
"""What an input of an exported program is in the model; other inputs are not state of it."""


def memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """What tensors over the same elements have in common."""
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    bits = (tensor.is_conj(), tensor.is_neg())
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), bits


def identity(tensor: torch.Tensor) -> Hashable:
    """What all names of one tensor have in common, wrappers and tensors without memory included."""
    if is_wrapper(tensor) or is_packed(tensor) or tensor.numel() == 0:
        return id(tensor)
    return memory(tensor)


def names_by_tensor(exported: Exported) -> dict[Hashable, tuple[str, ...]]:
    """All names that a model has for each of its tensors, by `identity`."""
    found: dict[Hashable, dict[str, None]] = {}
    for name, held in (*exported.program.state_dict.items(), *exported.program.constants.items()):
        if isinstance(held, torch.Tensor):
            found.setdefault(identity(exported.real.get(name, held)), {})[name] = None
    return {tensor: tuple(names) for tensor, names in found.items()}
