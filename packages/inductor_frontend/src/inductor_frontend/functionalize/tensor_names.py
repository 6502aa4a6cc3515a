"""Names of a model's tensors: all names of each tensor, including tied weights."""

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
"""Kinds of inputs of an exported program -> kinds of state of the model; other inputs are not state."""


def memory(tensor: torch.Tensor) -> tuple[object, ...]:
    """Returns a key that is equal for tensors over the same elements."""
    if tensor.layout is not torch.strided:
        return (id(tensor),)
    bits = (tensor.is_conj(), tensor.is_neg())
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), bits


def identity(tensor: torch.Tensor) -> Hashable:
    """Returns a key that is equal for all names of one tensor, including wrappers and tensors without
    memory."""
    if is_wrapper(tensor) or is_packed(tensor) or tensor.numel() == 0:
        return id(tensor)
    return memory(tensor)


def names_by_tensor(exported: Exported) -> dict[Hashable, tuple[str, ...]]:
    """Returns all names of each tensor of a model, by `identity`."""
    by_tensor: dict[Hashable, dict[str, None]] = {}
    for name, value in (*exported.program.state_dict.items(), *exported.program.constants.items()):
        if isinstance(value, torch.Tensor):
            by_tensor.setdefault(identity(exported.real.get(name, value)), {})[name] = None
    return {tensor: tuple(names) for tensor, names in by_tensor.items()}
